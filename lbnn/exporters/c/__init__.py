"""The C backend: a folder of readable C99 for a model, its kernels beside it."""

from lbnn.exporters.c.folder import export_c, generate, generate_program
from lbnn.exporters.c.footprint import Footprint, footprint
from lbnn.exporters.c.lower import lower
from lbnn.exporters.c.names import identifier as c_name
from lbnn.exporters.c.packages import Files
from lbnn.exporters.options import PACKAGES, COptions

__all__ = [
    "PACKAGES",
    "COptions",
    "Files",
    "Footprint",
    "c_name",
    "export_c",
    "footprint",
    "generate",
    "generate_program",
    "lower",
]
