"""The named kernels, each a function that returns a Program at a schedule, and as functions on arrays.

    from vyre_opt import kernels
    y = kernels.softmax(x)                     # where x is: on the CPU for a NumPy array
    y = kernels.softmax(x, dispatcher="cuda")  # on a GPU

The functions exported here take and return arrays; they are imported at their first use.  The
programs are built in

    softmax_rows   math.softmax         decode          decode.base64, decode.hex
    softmax_fixed  math.softmax_step    dfa             scan.dfa
    matvec         math.matvec_fixed    search          decoding fused with a search
    scan           scan.prefix          automaton       tables for these two
    checked_decode base64 and hex whose characters are checked
    chain          tt.chain             tensor_train    tt.contract_step
    matmul_program math.matmul          (matmul_batch: of stacks; matmul_panels, matmul_direct, matmul_dots: for CPUs,
                                        matmul_tiles, matmul_units with pitched_rows: for GPUs)
                   (chain_spread, chain_scattered: for clusters of a GPU)
    embedding      tt.embedding         (embedding_grouped, embedding_pairs, embedding_units: for GPUs)

and named has a file for each named kernel, which declares all else of it: the program and the schedule for a use, what
it means, what the tuner tries, its gradient.  call is a call of a function on arrays as data.  Most builders are
cached: the same arguments give the same Program, which must not be changed.  To run passes, build a
new one with `softmax_rows.softmax.__wrapped__(1024)`.
"""

from __future__ import annotations

from typing import Any

from ..ir.tracebacks import public
from ..worker import import_module

_EXPORTS = {
    "TTChain": "prepared_chain",
    "TTTable": "tt_table",
    "attention": "vyre_opt.row_kernels.attention",
    "base64_decode": "text_kernels",
    "cross_entropy": "vyre_opt.row_kernels.losses",
    "decode_scan": "vyre_scan.decode_scan",
    "hex_decode": "text_kernels",
    "layer_norm": "vyre_opt.row_kernels.norms",
    "layer_norm_backward": "vyre_opt.row_kernels.norms",
    "log_sum_exp": "vyre_opt.row_kernels.losses",
    "matmul": "numeric_kernels",
    "matvec_fixed": "numeric_kernels",
    "prefix_scan": "numeric_kernels",
    "rms_norm": "vyre_opt.row_kernels.norms",
    "rms_norm_backward": "vyre_opt.row_kernels.norms",
    "softmax": "numeric_kernels",
    "softmax_step": "numeric_kernels",
    "tt_chain": "numeric_kernels",
    "tt_contract_step": "numeric_kernels",
    "tt_embedding": "numeric_kernels",
}
"""Function -> the module that defines it, of `vyre_opt.driver` unless it says more.

That is a layer above this one: it runs what the modules here build.  It is named as text and imported at a
function's first use, since callers' scripts rely on `vyre_opt.kernels` as the place of these functions.
"""

__all__ = [*_EXPORTS]


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module if "." in module else f"vyre_opt.driver.{module}"), name)
    if not isinstance(value, type):
        value = public(value, _helps)
    globals()[name] = value
    return value


def _helps(*call: Any) -> list[str]:
    """Lines of help, imported when a call does not fit."""
    helps: list[str] = import_module(f"{__name__}.foreign_calls").helps(*call)
    return helps


def __dir__() -> list[str]:
    return sorted(__all__)
