"""Context of a pass besides the module: analyses, the target, and the remarks on decisions and their reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..ir.diagnostics import Diagnostic, Location, printable, render
from ..ir.program import Func, Module, Op, Program, Value
from ..kernels.targets import is_gpu
from ..records import dataclass

if TYPE_CHECKING:
    from ..execution.dispatcher import Dispatcher
    from .bisect import BisectLimit

__all__ = ["Analyses", "DebugOutput", "PassContext", "Remark"]


class Analysis(Protocol):
    """A result about a program or a module: computed from it, never changed, dropped when it may no longer hold."""

    name: str


A = TypeVar("A")
Item = TypeVar("Item", Program, Module)


class Analyses:
    """A cache of analyses by what they are about: each is computed at the first `get` and stays until dropped."""

    def __init__(self) -> None:
        self._cache: dict[tuple[Callable[..., Any], Program | Module], Any] = {}

    def get(self, analysis: Callable[[Item], A], item: Item) -> A:
        """`analysis(item)`, computed now or cached."""
        key = (analysis, item)
        if key not in self._cache:
            self._cache[key] = analysis(item)
        cached: A = self._cache[key]
        return cached

    def drop(self, preserves: Iterable[str] = (), invalidates: Iterable[str] = ()) -> None:
        """Drop all analyses but those in `preserves`; those in `invalidates` in any case."""
        valid = set(preserves) - set(invalidates)
        self._cache = {key: it for key, it in self._cache.items() if _name(key[0]) in valid}

    @property
    def names(self) -> set[str]:
        """The names of the analyses in the cache."""
        return {_name(analysis) for analysis, _ in self._cache}


def _name(analysis: Any) -> str:
    """The name by which passes say that it still holds."""
    name: str = analysis.name
    return name


@dataclass(frozen=True, slots=True)
class Remark:
    """A decision of a pass: `kind` is applied, refused or note; or a warning, which is always shown.

    `certificate`: the facts that justify it, as JSON values.  `item`: the name of the program, function or pipeline
    that it is about, empty where that is the module.
    """

    pass_name: str
    kind: str
    message: str
    loc: Location | None = None
    certificate: dict[str, Any] = field(default_factory=dict)
    item: str = ""

    def diagnostic(self) -> Diagnostic:
        if self.kind == "warning":
            return Diagnostic("warning", f"[{self.pass_name}] {self.message}", self.loc)
        return Diagnostic("remark", f"[{self.pass_name}] {self.kind}: {self.message}", self.loc)

    def __str__(self) -> str:
        return render(self.diagnostic())

    def _repr_html_(self) -> str:
        from html import escape  # a table of two thousand names, which start-up does without

        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True)
class DebugOutput:
    """Debug output of passes.  `passes`: the passes that may write; None for all."""

    passes: frozenset[str] | None
    write: Callable[[str], None]

    def includes(self, name: str) -> bool:
        return self.passes is None or name in self.passes


@dataclass(slots=True)
class PassContext:
    """The argument of a pass besides the module: analyses, the target, remarks, statistics and debug output.

    `running`: the name of the pass.  `item`: that of the program or function which it has from `items`, if any.
    `bisect`: what decides on the executions that are left out; None where all run.  `debug_sink`: takes a line of the
    debug output; None where nobody wants any.
    """

    analyses: Analyses = field(default_factory=Analyses)
    remarks: list[Remark] = field(default_factory=list)
    statistics: dict[tuple[str, str], int] = field(default_factory=dict)
    running: str = ""
    target: str = ""
    item: str = ""
    bisect: BisectLimit | None = None
    debug_sink: Callable[[str], None] | None = None

    def items(self, module: Module) -> Iterator[Program | Func]:
        """The programs and functions, in the order of the text, that a pass which works `per_item` is to rewrite.

        Each is an execution of the pass of its own to --opt-bisect-limit.
        """
        for item in list(module.order):
            if isinstance(item, Program | Func) and self._may_run(item):
                self.item = item.name
                yield item
        self.item = ""

    def programs(self, module: Module) -> Iterator[Program]:
        """Programs as `items` gives them, for a pass that leaves functions alone."""
        for program in list(module.programs.values()):
            if self._may_run(program):
                self.item = program.name
                yield program
        self.item = ""

    def _may_run(self, item: Program | Func) -> bool:
        where = f"{type(item).__name__.lower()} @{item.name}"
        runs = self.bisect is None or self.bisect.may_run(self.running, where)
        if runs:
            self.debug("on {}", where, loc=item.loc)
        return runs

    def put_back(self, program: Program, before: Program) -> None:
        """Make a program what a copy of it says, which was made before the pass changed it."""
        program.buffers, program.body = before.buffers, before.body
        self.analyses.drop()  # those of the ops that are no more

    def is_for_gpu(self) -> bool:
        """Whether the target is a GPU; if not, the debug output says so."""
        if not is_gpu(self.target):
            self.debug("{} is no GPU", self.target or "the target")
        return is_gpu(self.target)

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: Any) -> None:
        """Report what was done (applied), was not done (refused), or deserves a warning, with its reasons."""
        item = self.item or certificate.get("program") or certificate.get("pipeline") or ""
        self.remarks.append(Remark(self.running, kind, message, loc, certificate, item))
        self.debug("{}: {}", kind, message, loc=loc)

    @property
    def is_debugging(self) -> bool:
        """Whether debug output is shown: to be asked before what takes time to find out for it."""
        return self.debug_sink is not None

    def debug(self, message: str, *values: object, loc: Location | None = None) -> None:
        """Write a line of debug output, which --debug-only=PASS shows: what was tried, what matched, and where.

        `values`, ops and SSA values among them, take the places of `{}` in the message, where it is shown.
        """
        if self.debug_sink is not None:
            text = message.format(*map(_shown, values))
            line = f"[{self.running}] {f'{loc}: ' if loc is not None else ''}{text}"
            self.debug_sink(f"{printable(line)}\n")

    def dispatcher(self, name: str) -> Dispatcher:
        """The dispatcher of a target, for a pass that runs programs.

        Raises BackendError for a target that is not available on this machine.
        """
        from ..execution.dispatcher import shared_dispatcher

        return shared_dispatcher(name)

    def count(self, what: str, number: int = 1) -> None:
        """Add to a statistic of the running pass, shown by --stats."""
        key = (self.running, what)
        self.statistics[key] = self.statistics.get(key, 0) + number


def _shown(value: object) -> object:
    """An op with its results and operands, a value by its name, anything else as it is; None is no location."""
    if isinstance(value, Value):
        return f"%{value.name}"
    if not isinstance(value, Op):
        return "an unknown place" if value is None else value
    results = ", ".join([f"%{v.name}" for v in value.results])
    operands = ", ".join([f"%{v.name}" for v in value.operands])
    return f"{results}{' = ' if results else ''}{value.name}{' ' if operands else ''}{operands}"
