"""Programs compiled for this machine, kept in the process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...ir.fingerprint import fingerprint
from ...ir.program import Module, Program
from ...lowering.host import ENTRY, HostCode, UnloweredKernel, lower
from ...lowering.host_flatten import MAX_OPS, TooLarge, flatten
from ...lowering.host_segments import DivergentBarrier
from ..dispatcher import BackendError
from ..ref.faults import fault
from .jit import Host, Loaded, compile_object, load

__all__ = ["Compiled", "compiled", "flat_program", "host_code"]

MAX_KEPT = 256
_KEPT: OrderedDict[Any, Compiled] = OrderedDict()
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Compiled:
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


def compiled(program: Program, module: Module | None, specs: Mapping[str, Any], host: Host) -> Compiled:
    """The program in memory, from the last calls or made now."""
    key = (_fingerprints(program, module), tuple(sorted(specs.items())), host)
    with _LOCK:
        found = _KEPT.get(key)
        if found is not None:
            _KEPT.move_to_end(key)
            return found
    code = host_code(program, module, specs, host)
    made = Compiled(code, load(compile_object(code.text, host), ENTRY))
    with _LOCK:
        _KEPT[key] = made
        while len(_KEPT) > MAX_KEPT:
            _KEPT.popitem(last=False)
    return made


def _fingerprints(program: Program, module: Module | None) -> tuple[bytes, ...]:
    """The program's, and those of the functions that it calls, by name."""
    funcs = module.funcs if module is not None else {}
    called: dict[str, None] = {}
    waiting = [op.attrs["callee"] for op in program.walk() if op.name == "call"]
    while waiting:
        name = waiting.pop()
        if name not in called:
            called[name] = None
            waiting += [op.attrs["callee"] for op in funcs[name].walk() if op.name == "call"]
    return (fingerprint(program), *(fingerprint(funcs[name]) for name in sorted(called)))
