"""All that is fuzzed, by name."""

from __future__ import annotations

from .drawn_targets import CALLS, COSTS, KERNELS
from .emit_target import EMIT
from .file_targets import CACHE, NPY, TABLES
from .lsp_target import LSP
from .option_target import OPTIONS
from .run_target import RUN
from .target import Target
from .text_targets import FAST_PATH, PASS_TEXT, PASSES, TEXT

__all__ = ["TARGETS"]

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        TEXT,
        FAST_PATH,
        PASSES,
        PASS_TEXT,
        OPTIONS,
        NPY,
        CACHE,
        TABLES,
        LSP,
        EMIT,
        RUN,
        KERNELS,
        CALLS,
        COSTS,
    )
}
