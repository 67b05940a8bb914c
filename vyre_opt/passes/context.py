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
    """Result about a program or a module: computed once, immutable, dropped when a pass may have made it stale."""

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
        """Drop every analysis that is not in `preserves`, and every one in `invalidates`, even if it is in both."""
        valid = set(preserves) - set(invalidates)
        self._cache = {key: result for key, result in self._cache.items() if _name(key[0]) in valid}

    @property
    def names(self) -> set[str]:
        """The names of the analyses in the cache."""
        return {_name(analysis) for analysis, _ in self._cache}


def _name(analysis: Any) -> str:
    """Name of an analysis in `preserves` and `invalidates`."""
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

    `running`: the name of the pass.  `item`: the name of the program or function it works on, empty for the module.
    `bisect`: skips executions beyond a limit; None to run all.  `debug_sink`: takes a line of debug output; None
    to write none.
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
        """Programs and functions for a `per_item` pass to rewrite, in the order of the text.

        Each counts as one execution for --opt-bisect-limit.
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
        """Undo a pass: restore a program from `before`, a copy that was made before the pass changed it."""
        program.buffers, program.body = before.buffers, before.body
        self.analyses.drop()  # they may name ops of the body that is discarded

    def is_for_gpu(self) -> bool:
        """Whether the target is a GPU; if not, the debug output says so."""
        if not is_gpu(self.target):
            self.debug("{} is no GPU", self.target or "the target")
        return is_gpu(self.target)

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: Any) -> None:
        """Report a decision, with its reasons.  `kind`: applied, refused, note or warning."""
        item = self.item or certificate.get("program") or certificate.get("pipeline") or ""
        self.remarks.append(Remark(self.running, kind, message, loc, certificate, item))
        self.debug("{}: {}", kind, message, loc=loc)

    @property
    def is_debugging(self) -> bool:
        """Whether debug output is shown.  Ask before computing a message that takes time."""
        return self.debug_sink is not None

    def debug(self, message: str, *values: object, loc: Location | None = None) -> None:
        """Write a line of debug output, which --debug-only=PASS shows: attempts, matches and their places.

        `values` replace the `{}` of the message; ops and SSA values are formatted only if the line is shown.
        """
        if self.debug_sink is not None:
            text = message.format(*map(_debug_text, values))
            line = f"[{self.running}] {f'{loc}: ' if loc is not None else ''}{text}"
            self.debug_sink(f"{printable(line)}\n")

    def dispatcher(self, name: str) -> Dispatcher:
        """The dispatcher of a target, for a pass that runs programs.

        Raises BackendError for a target that is not available on this machine.
        """
        from ..execution.dispatcher import shared_dispatcher

        return shared_dispatcher(name)

    def count(self, statistic: str, number: int = 1) -> None:
        """Add to a statistic of the running pass, shown by --stats."""
        key = (self.running, statistic)
        self.statistics[key] = self.statistics.get(key, 0) + number


def _debug_text(value: object) -> object:
    """Text of an op with results and operands, of a value by its name; anything else unchanged.  None: no location."""
    if isinstance(value, Value):
        return f"%{value.name}"
    if not isinstance(value, Op):
        return "an unknown place" if value is None else value
    results = ", ".join([f"%{v.name}" for v in value.results])
    operands = ", ".join([f"%{v.name}" for v in value.operands])
    return f"{results}{' = ' if results else ''}{value.name}{' ' if operands else ''}{operands}"
