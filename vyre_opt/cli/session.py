"""One run of vyre-opt: every text of the input through parse, verify, passes, emit.

text -> parse -> verify -> --spec -> passes -> emit -> text
          |         |                   |
          +---------+--- diagnostics ---+--> stderr, or checked against expectations
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.diagnostics import Diagnostic, DiagnosticError, Source
from ..ir.parser import parse_source
from ..ir.program import Module
from ..ir.verifier import verify
from . import emit, errors, ir_printing
from .errors import ToolError
from .reports import Clock
from .settings import Settings

if TYPE_CHECKING:
    from ..passes.manager import PassManager, Remark
    from ..passes.registry import Pass

__all__ = ["ALL_REMARKS", "Crash", "Session"]

ALL_REMARKS = "*"


class Crash(Exception):
    """A bug, not a fault of the input.  `bug` is the exception, `source` the text it met."""

    def __init__(self, bug: Exception, source: Source) -> None:
        super().__init__(str(bug))
        self.bug = bug
        self.source = source


class Session:
    """Compiles one text after the other; `failed` tells whether any went wrong."""

    def __init__(self, settings: Settings, manager: PassManager | None) -> None:
        self.settings = settings
        self.manager = manager
        self.clock = Clock()
        self.statistics: dict[tuple[str, str], int] = {}
        self.failed = False
        self.step = ""
        if manager is not None:
            manager.observers = [_Steps(self), *ir_printing.observers(settings)]

    def compile(self, source: Source) -> str | None:
        """The emitted text of one source; None, with its diagnostics reported, if it has errors.

        Raises Crash for any other exception.
        """
        found: list[Diagnostic] = []
        emitted: str | None = None
        try:
            emitted = self._steps(source, found)
        except DiagnosticError as errors:
            found += errors.diagnostics
        except ToolError as failed:
            found.append(Diagnostic("error", str(failed)))
        except MemoryError:
            raise
        except Exception as bug:
            bug.add_note(f"while {self.step}")
            raise Crash(bug, source) from bug
        self._report(source, found)
        return emitted

    def _steps(self, source: Source, found: list[Diagnostic]) -> str:
        settings, clock = self.settings, self.clock
        self.step = "parsing"
        module = parse_source(source)
        clock.lap("parse")
        self.step = "verifying"
        found += verify(module)
        if any(d.severity == "error" for d in found):
            raise DiagnosticError(())
        clock.lap("verify")
        if settings.spec:
            from ..specialization.binding import bind

            bind(module, settings.spec)
        self._roundtrip(module)
        before = emit.pictures_before(module, settings)
        remarks: list[Remark] = []
        if self.manager is not None:
            remarks = self._passes(self.manager, module, found)
        self.step = f"emitting {settings.emit}"
        text = emit.emit(module, settings, self.manager, remarks, self.statistics, before)
        clock.lap(f"emit {settings.emit}")
        return text

    def _passes(self, manager: PassManager, module: Module, found: list[Diagnostic]) -> list[Remark]:
        result = manager.run(module)
        for name, seconds in result.seconds:
            self.clock.add(f"pass {name}", seconds)
        self.clock.lap("checks between passes", less=sum(seconds for _, seconds in result.seconds))
        for key, number in result.statistics.items():
            self.statistics[key] = self.statistics.get(key, 0) + number
        found += [r.diagnostic() for r in result.remarks if r.kind == "warning" or self._wants(r.pass_name)]
        self._roundtrip(module)
        return result.remarks

    def _wants(self, pass_name: str) -> bool:
        wanted = self.settings.remarks
        return bool(wanted) and (ALL_REMARKS in wanted or pass_name in wanted)

    def _roundtrip(self, module: Module) -> None:
        if self.settings.verify_roundtrip:
            from .roundtrip import check_roundtrip

            check_roundtrip(module)
            self.clock.lap("round trip")

    def _report(self, source: Source, found: list[Diagnostic]) -> None:
        if self.settings.verify_diagnostics:
            from .expected import compare

            found = compare(source, found)
        if found:
            errors.show(found, self.settings.color)
            self.failed |= any(d.severity == "error" for d in found)


class _Steps:
    """Tells the session which pass runs, for the report of a crash."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def before(self, running: Pass, module: Module) -> None:
        self.session.step = f"running pass {running.name}"

    def after(self, running: Pass, module: Module, changed: bool) -> None:
        pass
