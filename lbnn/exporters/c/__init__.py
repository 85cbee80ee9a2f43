"""The C backend: a folder of readable C99 for a model, its kernels beside it."""

from lbnn.exporters.c.folder import Files, export_c, generate, list_calls
from lbnn.exporters.c.footprint import Footprint, footprint
from lbnn.exporters.c.names import identifier as c_name
from lbnn.exporters.c.options import PACKAGES, COptions

__all__ = ["PACKAGES", "COptions", "Files", "Footprint", "c_name", "export_c", "footprint", "generate", "list_calls"]
