"""Compiles programs for this machine; the latest stay loaded in the process."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from typing import Any

from ...execution.cache.compilations import Compilation, fetch
from ...execution.cache.ir_results import ir_result
from ...execution.cache.keys import Fingerprints, fingerprints_of, line_table_key
from ...execution.cache.store import Store
from ...execution.dispatcher import ProgramError
from ...execution.limits import compiling
from ...ir.diagnostics import DiagnosticError
from ...ir.program import Module, Op, Program
from ...lowering.host.abi import ENTRY
from ...rewriting.core_form import core_form
from ...worker import import_module
from . import object_cache
from .host import Host
from .linking import LoadedFunction, load
from .object_code import ObjectCode, RunFacts

__all__ = ["LegalForm", "compile_program", "run_facts"]

MAX_LOADED = 256
_LOADED: OrderedDict[tuple[object, ...], ObjectCode] = OrderedDict()
_COMPILING: dict[tuple[object, ...], threading.Lock] = {}
"""Locks by the program that is being compiled, or read from the store: the thread that does it holds one, others wait for it."""
_LOCK = threading.Lock()


def _forget_other_threads() -> None:
    """Forget in a forked child the parent's locks: no thread of the parent compiles here, nor lets go of a lock."""
    global _LOCK
    _LOCK = threading.Lock()
    _COMPILING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


class LegalForm:
    """A program that is compiled.

    `source`, `module`: the program in core ops, and what it calls, by which its code is cached.  `program`: the same as
    it is lowered (see lowering/host/legalization.py), from the store if it is there.  Raises ProgramError for a program that gets too large.
    """

    def __init__(self, program: Program, module: Module | None, store: Store | None = None) -> None:
        self.source, self.module = core_form(program, module)
        parts = self.source, self.module
        self.program, self.prints = ir_result(store, "legalize", "cpu", parts, self._legalized)

    @cached_property
    def records(self) -> str | None:
        """See `LaunchForm`."""
        if not any(op.name == "debug_print" for op in self.source.walk()):
            return None
        import_module("vyre_opt.lowering.common.print_records")
        from ...lowering.common.print_records import records_of

        return records_of(self.source)

    def op_at(self, number: int) -> Op:
        """See `LaunchForm`."""
        return next(islice(self.program.walk(), number, None))

    def _legalized(self) -> tuple[Program, Fingerprints]:
        import_module("vyre_opt.lowering.host.legalization")
        from ...lowering.host.legalization import legal_program

        try:
            with compiling():
                legal = legal_program(self.source, self.module)
            return legal, fingerprints_of(self.source, self.module)
        except DiagnosticError as error:
            raise ProgramError("limit", error.diagnostics[0]) from None


def run_facts(program: Program) -> RunFacts:
    """Facts that the loops of a program in its legal form show."""
    import_module(f"{__package__}.loop_analysis")
    from . import loop_analysis

    return RunFacts(
        loop_analysis.has_ticket_loop(program),
        loop_analysis.has_fixed_trip_counts(program),
        loop_analysis.is_bounded(program),
        loop_analysis.may_wait(program),
    )


def compile_program(
    form: LegalForm,
    specs: Mapping[str, Any],
    host: Host,
    store: Store | None,
    log: deque[Compilation],
) -> ObjectCode:
    """The program's code, loaded: from this process, from the store, or compiled now.

    `log`: gets an entry unless the code was in the process.
    """
    values = tuple(sorted(specs.items()))
    lines = line_table_key(form.source, form.module, host.debug_info)
    own, called = form.prints
    key = (own, *called, values, host, *lines)
    with _LOCK:
        lock = _COMPILING.setdefault(key, threading.Lock())
    with lock:
        try:
            return _compile_once(key, form, specs, host, store, log)
        finally:
            with _LOCK:
                _COMPILING.pop(key, None)


def _compile_once(
    key: tuple[object, ...],
    form: LegalForm,
    specs: Mapping[str, Any],
    host: Host,
    store: Store | None,
    log: deque[Compilation],
) -> ObjectCode:
    with _LOCK:
        object_code = _LOADED.get(key)
    if object_code is None:

        def loaded(object_file: bytes) -> LoadedFunction:
            if host.debug_info:
                import_module(f"{__package__}.debuggers")
                from .debuggers import load_for_debuggers

                return load_for_debuggers(object_file, ENTRY, form.program.name)
            return load(object_file, ENTRY)

        def compile() -> tuple[bytes, ObjectCode]:
            import_module(f"{__package__}.host_code")
            import_module(f"{__package__}.jit")
            from .host_code import host_code
            from .jit import compile_object

            with compiling():
                code = host_code(form.program, specs, host)
                object_file = compile_object(code.text, host)
            facts = run_facts(form.program)
            return object_cache.encode(code, facts, object_file), ObjectCode(code, facts, loaded(object_file))

        def decode(payload: bytes) -> ObjectCode:
            code, facts, object_file = object_cache.decode(payload, form.program)
            return ObjectCode(code, facts, loaded(object_file))

        object_code = fetch(
            store,
            "cpu",
            lambda: object_cache.key_of(form.source, form.module, specs, host, form.prints),
            decode,
            compile,
            log,
            f"@{form.source.name}",
        )
    with _LOCK:
        _LOADED[key] = object_code
        _LOADED.move_to_end(key)
        if len(_LOADED) > MAX_LOADED:
            _LOADED.popitem(last=False)
    return object_code
