"""The public names of ir.  Made by `python docs/op_stubs.py`."""

from .builder import Builder as Builder
from .types import DataType as DataType
from .diagnostics import Diagnostic as Diagnostic
from .diagnostics import DiagnosticError as DiagnosticError
from .kernels.expansion import Expansion as Expansion
from .kernels.expansion import ExpansionRequest as ExpansionRequest
from .pipeline_builder import PipelineBuilder as PipelineBuilder
from .syntax.fingerprint import fingerprint as fingerprint
from .syntax.parser import parse as parse
from .syntax.parser import parse_file as parse_file
from .syntax.printer import print_program as print_program
from .plugin_ops import register_kernel as register_kernel
from .plugin_ops import register_op as register_op
from .verifier import verify as verify
