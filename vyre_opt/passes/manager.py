"""The pass manager: schedules and runs passes, caches analyses, and checks what passes report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..ir.diagnostics import Diagnostic, DiagnosticError, render_all
from ..ir.pipeline import Pipeline
from ..ir.plugin_ops import has_plugin_ops
from ..ir.program import Func, Module, Program
from ..ir.shapes import has_slices
from ..ir.structure import check_structure
from ..ir.tracebacks import public
from ..ir.verifier import errors_of
from ..observers import span
from ..records import dataclass
from ..syntax.normal_form import normalize
from .context import Analyses, DebugOutput, PassContext, Remark
from .module_state import ModuleState
from .pipeline_text import parse_pipeline
from .registry import BUILTIN, Pass, PassError, check_declarations, find_pass, make_pass

if TYPE_CHECKING:
    from .bisect import BisectLimit

__all__ = [
    "Analyses",
    "DebugOutput",
    "PassContext",
    "Observer",
    "PassFailure",
    "PassManager",
    "Remark",
    "Result",
    "schedule_passes",
]


T = TypeVar("T")


class PassFailure(Exception):
    """A pass broke the module or misreported what it did: a bug of the pass.  Its notes have the diagnostics."""

    def __init__(self, pass_name: str, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(f"pass {pass_name} {message}")
        self.pass_name = pass_name
        self.diagnostics = list(diagnostics)
        for text in render_all(self.diagnostics):
            self.add_note(text)


class Observer(Protocol):
    """Callbacks before and after every pass.  `remarks`: the remarks of that pass alone."""

    def before(self, running: Pass, module: Module) -> None: ...
    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None: ...


@dataclass(slots=True)
class Result:
    """The outcome of a run; true if anything changed.  `seconds`: wall time by pass, in order.  `runs`, `changes`: how
    often each pass ran, and how often it changed something, by name; a skipped idle run does not count."""

    changed: bool
    remarks: list[Remark]
    statistics: dict[tuple[str, str], int]
    seconds: list[tuple[str, float]]
    runs: dict[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.changed


class PassManager:
    """A pipeline: `PassManager("cse,dce")`, `PassManager(["cse", make_pass("unroll", {"factor": "4"})])`.

    `verify_each` verifies the module after each pass, and checks that the pass reported
    correctly whether it changed anything.  `target` (`sm_90`, say) sets the limits that passes work with; without a
    target, passes use limits that every target meets.  `bisect` numbers the executions of passes and skips those
    beyond its limit; `debug` takes the debug output of all runs.
    `normalizes`: whether modules are put into normal form for the passes; a target's lowering needs none.
    Raises PassError for a wrong pipeline.
    """

    @public
    def __init__(
        self,
        passes: str | Sequence[str | Pass] = (),
        verify_each: bool = True,
        observers: Sequence[Observer] = (),
        target: str = "",
        *,
        bisect: BisectLimit | None = None,
        debug: DebugOutput | None = None,
        normalizes: bool = True,
    ) -> None:
        is_list = isinstance(passes, Sequence) and not isinstance(passes, str)
        items: Sequence[Any] = passes if is_list else [passes]
        for item in items:
            if not isinstance(item, (str, Pass)):
                raise PassError(f"passes are a text, or a list of texts and passes, and not {item!r}")
        lists = [parse_pipeline(item) if isinstance(item, str) else item.parts() for item in items]
        requested = [pass_ for group in lists for pass_ in group]
        self.passes = schedule_passes(requested)
        self._requested = {pass_.name for pass_ in requested}
        self.verify_each = verify_each
        self.observers = list(observers)
        self.target = target
        self.bisect = bisect
        self.debug = debug
        self.normalizes = normalizes

    def run(self, module: Module) -> Result:
        """Run every pass on `module`, in place.

        Raises PassFailure for a bug of a pass, and DiagnosticError for a module that a pass does not accept.
        """
        ctx = PassContext(target=self.target)
        seconds: list[tuple[str, float]] = []
        changed_any = False
        state = ModuleState()
        idle: list[Pass] = []
        """Passes that have changed nothing since the last change."""
        stale: dict[str, Pass] = {}
        """Requested passes whose results no longer hold, each with the pass that invalidated them."""
        runs, changes = Counter[str](), Counter[str]()
        if self.normalizes:
            _on_input(module, normalize)
        for running in self._with_expansions(module):
            self._begin(running, ctx)
            if not running.takes_type_parameters:
                _check_types(running, module)
            for observer in self.observers:
                observer.before(running, module)
            if self.verify_each:
                _on_input(module, state.refresh)
            first_remark, start = len(ctx.remarks), time.perf_counter()
            changed = False
            if not _is_idle(running, idle) and self._may_run(running, ctx):
                with span("pass", running.name):
                    changed = running.run(module, ctx)
                runs[running.name] += 1
            seconds.append((running.name, time.perf_counter() - start))
            if not isinstance(changed, bool):
                raise PassFailure(running.name, f"returned {changed!r}, not whether anything changed")
            if self.verify_each:
                _check(running, module, changed, state)
            stale.pop(running.name, None)
            if changed:
                changes[running.name] += 1
                # a requirement of this pass has served its purpose: no remark that it is stale
                void = {name.replace("-", "_") for name in running.invalidates} - set(running.requires)
                stale.update(dict.fromkeys(void & runs.keys() & self._requested, running))
                if self.normalizes and not running.is_legalization and normalize(module):
                    state = ModuleState(state.is_verified)
                    ctx.analyses.drop()  # they may name constants that `normalize` removed
                ctx.analyses.drop(running.preserves, running.invalidates)
                changed_any = True
                idle.clear()
            else:
                idle.append(running)
            for observer in self.observers:
                observer.after(running, module, changed, ctx.remarks[first_remark:])
        for name in sorted(stale):
            _remark_stale(ctx, name, stale[name].name)
        return Result(changed_any, ctx.remarks, ctx.statistics, seconds, dict(runs), dict(changes))

    def _begin(self, running: Pass, ctx: PassContext) -> None:
        ctx.running, ctx.item = running.name, ""
        ctx.bisect = self.bisect if running.per_item and not running.is_required else None
        ctx.debug_sink = self.debug.write if self.debug and self.debug.includes(running.name) else None

    def _may_run(self, running: Pass, ctx: PassContext) -> bool:
        """Whether to run a pass at all; for a `per_item` pass, `ctx.items` decides at each item instead."""
        if running.per_item:
            return True
        ctx.debug("on module")
        if self.bisect is None or running.is_required:
            return True
        return self.bisect.may_run(running.name, "module")

    def _with_expansions(self, module: Module) -> Iterator[Pass]:
        """The passes in order.  `expand_ops` precedes a pass that needs core ops if the module then has ops of other
        packages, and `lower_slices` if it has slices."""
        for running in self.passes:
            if running.needs_core_ops and has_plugin_ops(module):
                yield make_pass("expand_ops")
            if running.needs_core_ops and any(map(has_slices, module.programs.values())):
                yield make_pass("lower_slices")
            yield running


def _is_idle(running: Pass, idle: Sequence[Pass]) -> bool:
    """Whether a pass has nothing to do: an equal one ran and changed nothing, and nothing has changed since.

    Only for built-in passes: a pass of another package may depend on more than the module and its options.
    """
    return running.name in BUILTIN and any(
        type(other) is type(running) and other.options == running.options for other in idle
    )


def _check_types(running: Pass, module: Module) -> None:
    """Raises DiagnosticError for a type parameter: a fact about one type may be wrong for the next."""
    errors = [
        Diagnostic(
            "error",
            f"{type(item).__name__.lower()} @{item.name} is open in its type @{spec.name}, and pass {running.name} needs it fixed",
            spec.loc,
            help=f"run specialize before: --pass=specialize --pass={running.name}",
        )
        for item in module.parametric
        for spec in item.type_parameters
    ]
    if errors:
        raise DiagnosticError(errors)


def _check(running: Pass, module: Module, changed: bool, state: ModuleState) -> None:
    """Raises PassFailure for a bug of a pass.  `state`: the module before the pass."""
    is_same = state.is_same(module)
    if not is_same:
        if errors := _errors(module, state.intact(module)):
            raise PassFailure(running.name, "left a module that does not verify", errors)
        state.is_verified = True
    if changed == (is_same or state.is_equal(module)):
        reported, actual = ("a change", "nothing changed") if changed else ("no change", "something changed")
        raise PassFailure(running.name, f"reported {reported}, but {actual}")


def _remark_stale(ctx: PassContext, name: str, by: str) -> None:
    message = f"{by}, which ran later, changed what {name} was about: name {name} again after it"
    ctx.running, ctx.item = name, ""
    ctx.remark("note", message, reason="stale", invalidated_by=by)


def _on_input(module: Module, function: Callable[[Module], T]) -> T:
    """Return `function(module)`.  Raises DiagnosticError if it fails because the module does not verify."""
    try:
        return function(module)
    except Exception:
        errors = _errors(module)
        if errors:
            raise DiagnosticError(errors) from None
        raise


def _errors(module: Module, intact: Container[Program | Func | Pipeline] = ()) -> list[Diagnostic]:
    """Errors of a module.  `intact`: items that verified and have not changed."""
    # the verifier relies on the structure, so it does not run if that is broken
    return check_structure(module, intact) or errors_of(module, intact=intact)


def schedule_passes(requested: Sequence[Pass]) -> list[Pass]:
    """`requested` in order, each after the passes it requires, which are added where they are missing.

    A requirement runs again if a pass in between invalidated it, or if it ran with options other than its defaults: so
    each pass sees the same module as in a run by itself.  Independent requirements of one pass run in order of name.
    Raises PassError for an unknown name in a declaration, a cycle, naming its members, or a pass after legalization.
    """
    order: list[Pass] = []
    valid: dict[str, Pass] = {}

    def visit(pass_: Pass, path: tuple[str, ...]) -> None:
        if pass_.name in path:
            cycle = [*path[path.index(pass_.name) :], pass_.name]
            raise PassError(f"passes require each other: {' -> '.join(cycle)}")
        check_declarations(type(pass_))
        for name in sorted(pass_.requires):
            provider = valid.get(name.replace("-", "_"))
            if provider is None or provider.options != provider.Options():
                try:
                    find_pass(name)
                except PassError as unknown:
                    raise PassError(f"pass {pass_.name} requires {name}: {unknown}") from None
                visit(make_pass(name), (*path, pass_.name))
        if order and order[-1].is_legalization and not pass_.is_legalization:
            raise PassError(
                f"pass {pass_.name} cannot run after {order[-1].name}, which leaves what only a target reads; "
                "name it before"
            )
        order.append(pass_)
        for name in pass_.invalidates:
            valid.pop(name.replace("-", "_"), None)
        valid[pass_.name] = pass_

    for pass_ in requested:
        visit(pass_, ())
    return order
