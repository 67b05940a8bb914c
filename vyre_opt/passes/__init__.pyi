"""The public names of passes.  Made by `python docs/op_stubs.py`."""

from .registry import Pass as Pass
from .manager import PassContext as PassContext
from .manager import PassManager as PassManager
from ..rewriting.pattern import Pattern as Pattern
from ..rewriting.rewriter import Rewriter as Rewriter
from ..rewriting.driver import apply_patterns as apply_patterns
from .decode_scan_fuse import candidate_handoffs as candidate_handoffs
from ..rewriting.terms import const as const
from .decode_scan_fuse import count_opportunities as count_opportunities
from ..rewriting.terms import one_use as one_use
from ..rewriting.terms import op as op
from ..rewriting.terms import pattern as pattern
from ..rewriting.pattern import pattern_on as pattern_on
from .registry import register as register
from .registry import register_analysis as register_analysis
