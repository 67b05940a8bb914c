"""One run of vyre-opt: takes every text of the input through parser, verifier, passes and printer.

text -> parse -> verify -> --spec -> passes -> emit -> text
          |         |                   |
          +---------+--- diagnostics ---+--> stderr, or checked against expectations
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..ir.diagnostics import Diagnostic, DiagnosticError, Source
from ..ir.program import Module
from ..ir.verifier import verify
from ..mlir.file_kind import parse_either
from ..syntax.parser import parse_source
from ..syntax.printer import print_program
from . import certify, emit, errors, ir_printing
from .compile_options import ALL, CompileOptions
from .errors import ToolError
from .reports import Stopwatch, op_statistics
from .text_files import read_original

if TYPE_CHECKING:
    from ..certify.certifier import Certifier
    from ..passes.manager import PassManager, Remark, Result
    from ..passes.registry import Pass

__all__ = ["InternalError", "Session"]

MAX_DIFF_LINES = 20


class InternalError(Exception):
    """A bug of the compiler.

    `bug`: the exception; `source`: the text that was compiled; `step`: what was being done; `failing`: the number of
    the pass in the pipeline, None if no pass ran.
    """

    def __init__(self, bug: Exception, source: Source, step: str, failing: int | None) -> None:
        super().__init__(str(bug))
        self.bug = bug
        self.source = source
        self.step = step
        self.failing = failing


class Session:
    """Compiles one text after the other.  `failed`: whether any had an error; `step`: what is being done."""

    def __init__(self, options: CompileOptions, manager: PassManager | None) -> None:
        self.options = options
        self.manager = manager
        self.clock = Stopwatch()
        self.statistics: dict[tuple[str, str], int] = {}
        self.remarks: list[Remark] = []
        self.failed = False
        self.step = ""
        self.certifier = certify.certifier() if options.certify or options.emit == "smt2" else None
        self.writer = emit.certificate_writer(options)
        self.tracker = _PassTracker(self)
        self.printers = ir_printing.observers(options)
        if manager is not None:
            # the tracker comes first, so that it names the pass if a printer fails
            manager.observers = [self.tracker, *self.printers]
            if self.certifier is not None:
                manager.observers.append(self.certifier)
            if self.writer is not None:
                manager.observers.append(self.writer)

    def compile(self, source: Source) -> str | None:
        """The emitted text of one source; None, with its diagnostics reported, if it has errors.

        Raises InternalError for any other exception, but for MemoryError and what the system refused.
        """
        diagnostics: list[Diagnostic] = []
        text: str | None = None
        self.tracker.reset()
        try:
            text = self._compile(source, diagnostics)
        except DiagnosticError as error:
            diagnostics += error.diagnostics
            self._print_failure()
        except ToolError as error:
            diagnostics.append(Diagnostic("error", str(error)))
        except MemoryError:  # not a bug, so there is nothing to reproduce
            raise
        except Exception as bug:
            if errors.system_refusal(bug):
                raise
            bug.add_note(f"while {self.step}")
            self._print_failure()
            failing = None if self.tracker.running is None else self.tracker.number
            raise InternalError(bug, source, self.step, failing) from bug
        self._report(source, diagnostics)
        return text

    def _compile(self, source: Source, diagnostics: list[Diagnostic]) -> str:
        """The emitted text; what is said of the input is added to `diagnostics`."""
        options, clock = self.options, self.clock
        self.step = "parsing"
        module = parse_either(source, read_original, options.parser)
        if self.certifier is not None:
            self.certifier.clear()
        if self.writer is not None:
            self.writer.clear()
        clock.lap("parse")
        self.step = "verifying"
        diagnostics += verify(module)
        if any(d.severity == "error" for d in diagnostics):
            raise DiagnosticError(())  # they are in the list already
        clock.lap("verify")
        if options.spec:
            from ..specialization.binding import bind

            bind(module, options.spec)
        self._roundtrip(module)
        before = emit.snapshot_before(module, options)  # the passes change the module in place
        remarks: list[Remark] = []
        if self.manager is not None:
            remarks = self._run_passes(self.manager, module, diagnostics)
        if options.print_op_stats is not None:
            errors.write_stderr(op_statistics(module, as_json=options.print_op_stats == "json"))
        if self.certifier is not None:
            self._certify(self.certifier, module, diagnostics)
        self.step = f"emitting {options.emit}"
        if self.certifier is not None and options.emit == "smt2":
            return "".join(decision.smt2() for decision in self.certifier.decisions)
        if self.writer is not None:
            diagnostics += [
                Diagnostic("remark", f"[{finding.step}] not certified: {finding.claim}")
                for finding in self.writer.refused
                if self._is_shown(finding.step)
            ]
            return self.writer.certificate(module)
        legalize = partial(self._legalize, module)
        text = emit.emit(module, options, self.manager, remarks, self.statistics, before, legalize)
        clock.lap(f"emit {options.emit}")
        return text

    def _run_passes(
        self, manager: PassManager, module: Module, diagnostics: list[Diagnostic]
    ) -> list[Remark]:
        result = self._run(manager, module)
        self.remarks += result.remarks
        diagnostics += [
            r.diagnostic() for r in result.remarks if r.kind == "warning" or self._is_shown(r.pass_name)
        ]
        self._tell_of_idle_passes(manager, result)
        self._roundtrip(module)
        return result.remarks

    def _tell_of_idle_passes(self, manager: PassManager, result: Result) -> None:
        """Say of the passes of --pass which of them refused all that they could have changed."""
        options = self.options
        if not options.named_passes or options.remarks or options.verify_diagnostics:
            return
        words = {
            word.replace("-", "_") for text in options.named_passes for word in re.findall(r"[\w-]+", text)
        }
        refused = {remark.pass_name for remark in result.remarks if remark.kind == "refused"}
        idle = [
            name for name in dict.fromkeys(p.name for p in manager.passes) if not result.changes.get(name)
        ]
        if idle := [name for name in idle if name in words & refused]:
            errors.write_stderr(
                f"note: {' and '.join(idle)} changed nothing: --remarks={','.join(idle)} says why\n"
            )

    def _legalize(self, module: Module) -> list[Remark]:
        """Run the passes that the target of --emit runs before it writes code."""
        from .pass_manager import legalizer

        manager = legalizer(self.options)
        manager.observers = self.printers
        return self._run(manager, module).remarks

    def _run(self, manager: PassManager, module: Module) -> Result:
        """Run passes, and take their times and what they count."""
        result = manager.run(module)
        for name, seconds in result.seconds:
            self.clock.add(f"pass {name}", seconds)
        self.clock.lap("checks between passes", less=sum(seconds for _, seconds in result.seconds))
        for key, number in result.statistics.items():
            self.statistics[key] = self.statistics.get(key, 0) + number
        return result

    def _certify(self, certifier: Certifier, module: Module, diagnostics: list[Diagnostic]) -> None:
        self.step = "certifying"
        certify.add_lowering(certifier, module)
        if self.options.certify:
            started = time.perf_counter()
            diagnostics += certify.certify(certifier.decisions)
            tried = list(certifier.tried())
            diagnostics += certify.certify(tried)
            certifier.decisions += tried
            errors.write_stderr(certify.summary(certifier.decisions, started))
            self.clock.lap("certify")

    def _is_shown(self, pass_name: str) -> bool:
        """Whether --remarks names the pass."""
        return ALL in self.options.remarks or pass_name in self.options.remarks

    def _roundtrip(self, module: Module) -> None:
        if self.options.verify_roundtrip:
            check_roundtrip(module, self.options.print_locations)
            self.clock.lap("round trip")

    def _print_failure(self) -> None:
        """`--print-ir-after-failure`, if a pass has failed."""
        if self.options.print_ir_after_failure and self.tracker.running is not None:
            ir_printing.print_failure(*self.tracker.running, self.options)

    def _report(self, source: Source, diagnostics: list[Diagnostic]) -> None:
        if self.options.verify_diagnostics:
            from .expected import compare

            diagnostics = compare(source, diagnostics)
        if diagnostics:
            errors.print_diagnostics(diagnostics, self.options.color)
            self.failed |= any(d.severity == "error" for d in diagnostics)


class _PassTracker:
    """Knows which pass runs, on which module, and its `number` in the pipeline; keeps `Session.step` at it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.reset()

    def reset(self) -> None:
        self.running: tuple[Pass, Module] | None = None
        self.number = -1

    def before(self, running: Pass, module: Module) -> None:
        self.running = running, module
        self.number += 1
        self.session.step = f"running pass {running.name}"

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        self.running = None


def check_roundtrip(module: Module, locations: bool = False) -> None:
    """--verify-roundtrip: print a module in both forms, with its locations or not, parse each and print it again.

    Raises ToolError with a diff where the text is not the same.
    """
    short = print_program(module, locations=locations)
    generic = print_program(module, generic=True, locations=locations)
    for form, text in (("short", short), ("generic", generic)):
        try:
            reparsed = parse_source(Source(text, f"<{form} form>"))
        except DiagnosticError as error:
            raise ToolError(f"round trip: the {form} form does not parse\n{error}") from None
        _compare_texts(short, print_program(reparsed, locations=locations), form, "short")
        _compare_texts(generic, print_program(reparsed, generic=True, locations=locations), form, "generic")


def _compare_texts(first: str, second: str, parsed_form: str, form: str) -> None:
    """Raises ToolError if two texts of one module, in `form`, differ."""
    if first == second:
        return
    from difflib import unified_diff
    from itertools import islice

    lines = unified_diff(first.splitlines(), second.splitlines(), "printed", "read back", lineterm="")
    shown = "\n".join(islice(lines, MAX_DIFF_LINES))
    raise ToolError(
        f"round trip: the {parsed_form} form read back prints otherwise in the {form} form\n{shown}"
    )
