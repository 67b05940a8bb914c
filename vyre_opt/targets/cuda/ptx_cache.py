"""The compile cache's entries of GPUs: a module's PTX, and what a launch needs to know of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...execution.cache.compilations import pack_parts, unpack_parts
from ...execution.cache.keys import called_fingerprints, compile_key, line_table_key
from ...ir.program import Op, Program
from ...lowering.nvptx.abi import EntryPoint, FaultSite, KernelParam, Unit
from ...lowering.nvptx.targets import GpuTarget, PtxVersion
from ...specialization.digest import digest_of
from .ptx_options import PtxOptions

__all__ = ["decode", "encode", "key_of"]

_BUFFER_PARAMS = ("buffer", "length")
_SCALAR_PARAM = "scalar"
_OTHER_PARAMS = ("status", "call", "arrivals")
_SITES = ("bounds", "trap", "assert", "step")


def key_of(units: Sequence[Unit], target: GpuTarget, version: PtxVersion, options: PtxOptions) -> bytes:
    """The cache key of programs that share a module, in their order."""
    whole = "ptx", target, replace(options, ptx=version)
    keys = [
        compile_key(
            unit.program,
            unit.module,
            unit.specs,
            (*whole, *line_table_key(unit.program, unit.module, options.debug_info)),
        )
        for unit in units
    ]
    return digest_of([(f"unit {number:06}", "key", key) for number, key in enumerate(keys)])


def encode(kernels: Sequence[EntryPoint], units: Sequence[Unit], ptx: bytes) -> bytes:
    """An entry.  Sites of faults name their ops by index in `_ops`."""
    return pack_parts(
        {"kernels": [_facts(kernel, unit) for kernel, unit in zip(kernels, units, strict=True)]}, ptx
    )


def decode(payload: bytes, units: Sequence[Unit]) -> tuple[list[EntryPoint], bytes]:
    """Raises ValueError, KeyError, TypeError, IndexError or RecursionError for what `encode` did not write."""
    facts, ptx = unpack_parts(payload)
    kernels = [_kernel(entry, unit) for entry, unit in zip(facts["kernels"], units, strict=True)]
    for kernel in kernels:
        if f".entry {kernel.symbol}(".encode() not in ptx or not ptx.endswith(b"\0"):
            raise ValueError("an entry is PTX that has its kernels")
    return kernels, ptx


def _facts(kernel: EntryPoint, unit: Unit) -> dict[str, Any]:
    numbers = {op: number for number, op in enumerate(_ops(unit))} if kernel.sites else {}
    return {
        "symbol": kernel.symbol,
        "params": [[param.kind, param.name] for param in kernel.params],
        "sites": [[numbers[site.op], site.kind, site.width] for site in kernel.sites],
        "dynamic_shared": kernel.dynamic_shared,
        "is_cooperative": kernel.is_cooperative,
    }


def _kernel(facts: dict[str, Any], unit: Unit) -> EntryPoint:
    ops = _ops(unit) if facts["sites"] else []
    dynamic_shared, is_cooperative = facts["dynamic_shared"], facts["is_cooperative"]
    if (
        type(dynamic_shared) is not int
        or not 0 <= dynamic_shared < 1 << 32
        or type(is_cooperative) is not bool
    ):
        raise ValueError("a kernel has a number of bytes and a truth value")
    return EntryPoint(
        unit.program,
        facts["symbol"],
        tuple(_param(unit.program, *param) for param in facts["params"]),
        [_site(ops, *site) for site in facts["sites"]],
        dynamic_shared,
        is_cooperative,
    )


def _param(program: Program, kind: str, name: str) -> KernelParam:
    if kind in _BUFFER_PARAMS:
        is_known = name in program.buffers
    else:
        is_known = name in program.params if kind == _SCALAR_PARAM else kind in _OTHER_PARAMS and name == ""
    if not is_known:
        raise ValueError("a parameter of a kernel is of a kind, and of a buffer, of a scalar or of none")
    return KernelParam(kind, name)


def _site(ops: Sequence[Op], number: int, kind: str, width: int) -> FaultSite:
    if type(number) is not int or number < 0 or type(width) is not int or kind not in _SITES:
        raise ValueError("the site of a fault is an op's number, a kind and a width")
    return FaultSite(ops[number], kind, width)


def _ops(unit: Unit) -> list[Op]:
    """The ops of a program, then of the functions that it calls, by name."""
    ops = list(unit.program.walk())
    for name, _ in called_fingerprints(unit.program, unit.module):
        assert unit.module is not None
        ops += unit.module.funcs[name].walk()
    return ops
