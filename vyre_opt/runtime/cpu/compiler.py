"""Programs compiled for this machine, kept in the process."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...ir.fingerprint import fingerprint
from ...ir.program import Module, Program
from ...lowering.host.abi import ENTRY, HostCode
from ...lowering.host.flatten import MAX_OPS, TooLarge, flatten
from ...lowering.host.program import UnloweredKernel, lower
from ...lowering.host.segment_emitter import DivergentBarrier
from ..cache.compilations import Compilation, fetch
from ..cache.keys import called_fingerprints
from ..cache.store import Store
from ..dispatcher import BackendError
from ..ref.faults import fault
from . import object_cache
from .jit import Host, Loaded, compile_object, load

__all__ = ["ObjectCode", "compiled", "flat_program", "host_code"]

MAX_KEPT = 256
_KEPT: OrderedDict[Any, ObjectCode] = OrderedDict()
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class ObjectCode:
    code: HostCode
    loaded: Loaded


def flat_program(program: Program, module: Module | None) -> Program:
    try:
        return flatten(program, module.funcs if module is not None else {})
    except TooLarge:
        raise BackendError(
            f"program @{program.name}: with the functions that it calls it has more than {MAX_OPS} ops"
        ) from None


def host_code(program: Program, module: Module | None, specs: Mapping[str, Any], host: Host) -> HostCode:
    """LLVM IR of a program for the values of its specialization constants, encoded."""
    flat = flat_program(program, module)
    try:
        return lower(flat, specs, host.triple, host.layout, host.features)
    except UnloweredKernel as kernel:
        raise BackendError(
            f"program @{program.name}: {kernel.op.name} is a named kernel; "
            "expand it with the pass expand_kernels before it runs on the cpu"
        ) from None
    except DivergentBarrier as barrier:
        raise fault(
            "divergence",
            program,
            barrier.op,
            f"this {barrier.op.name} has a barrier inside, and may go different ways for those that meet there",
            help="move the barrier out of it, or make all of the barrier's scope agree on the way",
        ) from None


def compiled(
    program: Program,
    module: Module | None,
    specs: Mapping[str, Any],
    host: Host,
    store: Store | None,
    log: deque[Compilation],
) -> ObjectCode:
    """The program in memory: kept in the process, from the store, or made now.  `log`: what was not there."""
    values = tuple(sorted(specs.items()))
    key = (fingerprint(program), *called_fingerprints(program, module), values, host)
    with _LOCK:
        found = _KEPT.get(key)
    if found is None:

        def compile() -> tuple[bytes, tuple[HostCode, bytes]]:
            code = host_code(program, module, specs, host)
            made = compile_object(code.text, host)
            return object_cache.encode(code, made), (code, made)

        code, made = fetch(
            store,
            "cpu",
            lambda: object_cache.key_of(program, module, specs, host),
            object_cache.decode,
            compile,
            log,
            f"@{program.name}",
        )
        found = ObjectCode(code, load(made, ENTRY))
    with _LOCK:
        _KEPT[key] = found
        _KEPT.move_to_end(key)
        if len(_KEPT) > MAX_KEPT:
            _KEPT.popitem(last=False)
    return found
