"""Runs passes in their declared order, keeps analyses true, and checks what passes claim."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..ir.diagnostics import Diagnostic, DiagnosticError, Location
from ..ir.fingerprint import fingerprint
from ..ir.program import Module, Program
from ..ir.verifier import verify
from .pipeline_text import read
from .registry import Pass, PassError, find, make

if TYPE_CHECKING:
    from ..runtime.dispatcher import Dispatcher

__all__ = ["Analyses", "Context", "Observer", "PassFailure", "PassManager", "Remark", "Result", "schedule"]


class Analysis(Protocol):
    """A fact about a program: built from it, never changed, dropped when it may be untrue."""

    name: str


A = TypeVar("A")


class Analyses:
    """Facts by program.  A fact is computed when first asked for and kept until dropped."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, int], tuple[Program, Any]] = {}

    def get(self, analysis: Callable[[Program], A], program: Program) -> A:
        """`analysis(program)`, computed now or kept from before."""
        key = (analysis.name, id(program))  # type: ignore[attr-defined]
        kept = self._facts.get(key)
        if kept is not None and kept[0] is program:
            fact: A = kept[1]
            return fact
        made = analysis(program)
        self._facts[key] = (program, made)
        return made

    def drop(self, preserves: Iterable[str] = (), invalidates: Iterable[str] = ()) -> None:
        """Forget every fact but those in `preserves`, and those in `invalidates` in any case."""
        kept = set(preserves) - set(invalidates)
        self._facts = {key: fact for key, fact in self._facts.items() if key[0] in kept}

    @property
    def names(self) -> set[str]:
        """The analyses of which a fact is kept."""
        return {name for name, _ in self._facts}


@dataclass(frozen=True, slots=True)
class Remark:
    """A decision of a pass: `kind` is applied, refused or note; or a warning, which is always shown.

    `certificate` holds the facts it rests on, as JSON values.
    """

    pass_name: str
    kind: str
    message: str
    loc: Location | None = None
    certificate: dict[str, Any] = field(default_factory=dict)

    def diagnostic(self) -> Diagnostic:
        if self.kind == "warning":
            return Diagnostic("warning", f"[{self.pass_name}] {self.message}", self.loc)
        return Diagnostic("remark", f"[{self.pass_name}] {self.kind}: {self.message}", self.loc)


@dataclass(slots=True)
class Context:
    """What a pass is given besides the module."""

    analyses: Analyses = field(default_factory=Analyses)
    remarks: list[Remark] = field(default_factory=list)
    statistics: dict[tuple[str, str], int] = field(default_factory=dict)
    running: str = ""
    target: str = ""

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: Any) -> None:
        """Say what was done (applied), what was not (refused) or is worth a warning, and on which facts it rests."""
        self.remarks.append(Remark(self.running, kind, message, loc, certificate))

    def dispatcher(self, name: str) -> Dispatcher:
        """What runs programs on a target, for a pass that computes through one.

        Raises BackendError for a target that is not available here.
        """
        from ..runtime.dispatcher import shared_dispatcher

        return shared_dispatcher(name)

    def count(self, what: str, number: int = 1) -> None:
        """Add to a statistic of the running pass, shown by --stats."""
        key = (self.running, what)
        self.statistics[key] = self.statistics.get(key, 0) + number


class PassFailure(Exception):
    """A pass broke the module or misreported what it did: a bug of the pass."""

    def __init__(self, pass_name: str, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(f"pass {pass_name} {message}")
        self.pass_name = pass_name
        self.diagnostics = list(diagnostics)


class Observer(Protocol):
    """Called around every pass."""

    def before(self, running: Pass, module: Module) -> None: ...
    def after(self, running: Pass, module: Module, changed: bool) -> None: ...


@dataclass(slots=True)
class Result:
    """What a run did; true if anything changed.  Seconds are of wall time, by pass in order."""

    changed: bool
    remarks: list[Remark]
    statistics: dict[tuple[str, str], int]
    seconds: list[tuple[str, float]]

    def __bool__(self) -> bool:
        return self.changed


class PassManager:
    """A pipeline: `PassManager("cse,dce")`, `PassManager(["cse", make("unroll", {"factor": "4"})])`.

    `verify_each` verifies the module after each pass, and holds each pass to its
    word on whether it changed anything.  `target` (`sm_90`, say) is what passes take
    limits from; none means limits that every target has.  Raises PassError for a
    wrong pipeline.
    """

    def __init__(
        self,
        passes: str | Sequence[str | Pass] = (),
        verify_each: bool = True,
        observers: Sequence[Observer] = (),
        target: str = "",
    ) -> None:
        wanted = read(passes) if isinstance(passes, str) else [p for item in passes for p in _passes(item)]
        self.passes = schedule(wanted)
        self.verify_each = verify_each
        self.observers = list(observers)
        self.target = target

    def run(self, module: Module) -> Result:
        """Run every pass on `module`, in place.

        Raises PassFailure for a bug of a pass, and DiagnosticError for what a pass cannot take.
        """
        ctx = Context(target=self.target)
        seconds: list[tuple[str, float]] = []
        changed_any = False
        before: bytes | None = None
        for running in self.passes:
            ctx.running = running.name
            if not running.takes_type_parameters:
                _check_types(running, module)
            for observer in self.observers:
                observer.before(running, module)
            if self.verify_each:
                size, before = _size(module), before or fingerprint(module)
            started = time.perf_counter()
            changed = running.run(module, ctx)
            seconds.append((running.name, time.perf_counter() - started))
            if self.verify_each:
                assert before is not None
                before = _check(running, module, changed, before, size)
            if changed:
                ctx.analyses.drop(running.preserves, running.invalidates)
                changed_any = True
            for observer in self.observers:
                observer.after(running, module, changed)
        return Result(changed_any, ctx.remarks, ctx.statistics, seconds)


def _passes(item: str | Pass) -> list[Pass]:
    return read(item) if isinstance(item, str) else [item]


def _check_types(running: Pass, module: Module) -> None:
    """Raises DiagnosticError for a type parameter: what holds of the type that it stands for may not hold of the next."""
    errors = [
        Diagnostic(
            "error",
            f"program @{program.name} is open in its type @{spec.name}, and pass {running.name} needs it fixed",
            spec.loc,
            help=f"run specialize before: --pass=specialize --pass={running.name}",
        )
        for program in module.programs.values()
        for spec in program.type_parameters
    ]
    if errors:
        raise DiagnosticError(errors)


def _size(module: Module) -> int:
    """Ops in all: modules of one fingerprint have equally many."""
    bodies = [item.body for items in (module.programs, module.funcs) for item in items.values()]
    return sum(1 for body in bodies for _ in body.walk())


def _check(running: Pass, module: Module, changed: bool, before: bytes, size: int) -> bytes | None:
    """The module's fingerprint after a pass, if it was needed.  Raises PassFailure if the pass is at fault.

    `before`, `size`: what the module was before.
    """
    if changed:
        errors = [d for d in verify(module) if d.severity == "error"]
        if errors:
            raise PassFailure(running.name, "left a module that does not verify", errors)
    if changed and _size(module) != size:
        return None
    after = fingerprint(module)
    if changed != (after != before):
        said, did = ("a change", "nothing changed") if changed else ("no change", "something changed")
        raise PassFailure(running.name, f"reported {said}, but {did}")
    return after


def schedule(wanted: Sequence[Pass]) -> list[Pass]:
    """`wanted` in order, each after what it requires, which is pulled in where it is missing.

    A requirement that a pass in between invalidated is run again.  Requirements of
    one pass that do not depend on each other run by name.  Raises PassError for an
    unknown requirement or a cycle, naming its members.
    """
    order: list[Pass] = []
    valid: set[str] = set()

    def place(chosen: Pass, path: tuple[str, ...]) -> None:
        if chosen.name in path:
            cycle = [*path[path.index(chosen.name) :], chosen.name]
            raise PassError(f"passes require each other: {' -> '.join(cycle)}")
        for name in sorted(chosen.requires):
            if name.replace("-", "_") not in valid:
                try:
                    find(name)
                except PassError as unknown:
                    raise PassError(f"pass {chosen.name} requires {name}: {unknown}") from None
                place(make(name), (*path, chosen.name))
        order.append(chosen)
        valid.difference_update(chosen.invalidates)
        valid.add(chosen.name)

    for chosen in wanted:
        place(chosen, ())
    return order
