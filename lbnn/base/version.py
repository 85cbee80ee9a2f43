"""The version of the package: banners and model files carry it."""

__version__ = "0.1.0"
