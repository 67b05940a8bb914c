"""`--print-ir-before`, `-after` and so on: prints the module around passes, on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.printer import print_program
from ..ir.program import Module
from .errors import write_stderr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..passes.manager import Observer, Remark
    from ..passes.registry import Pass
    from .session import CompileOptions

__all__ = ["observers"]


def observers(options: CompileOptions) -> list[Observer]:
    """The observers of the pass manager that print the IR as `options` say."""
    printers: list[Observer] = []
    if options.print_ir_before or options.print_ir_after or options.print_ir_after_all:
        printers.append(PrintIR(options))
    if options.print_ir_after_change:
        printers.append(PrintChange(options.print_generic))
    return printers


class PrintIR:
    """Prints the whole module before and after the passes that are named."""

    def __init__(self, options: CompileOptions) -> None:
        self.options = options
        self.generic = options.print_generic

    def before(self, running: Pass, module: Module) -> None:
        if running.name in self.options.print_ir_before:
            write_stderr(f"// IR before {running.name}\n{print_program(module, self.generic)}")

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        if self.options.print_ir_after_all or running.name in self.options.print_ir_after:
            unchanged = "" if changed else " (no change)"
            write_stderr(f"// IR after {running.name}{unchanged}\n{print_program(module, self.generic)}")


class PrintChange:
    """Prints what each pass changed, as a unified diff; nothing for a pass that changed nothing."""

    def __init__(self, generic: bool) -> None:
        self.generic = generic
        # what one pass left is what the next finds, so each text is printed once
        self.previous: tuple[Module, str] | None = None

    def before(self, running: Pass, module: Module) -> None:
        if self.previous is None or self.previous[0] is not module:
            self.previous = module, print_program(module, self.generic)

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        if not changed:
            return
        from difflib import unified_diff

        assert self.previous is not None
        old, new = self.previous[1], print_program(module, self.generic)
        self.previous = module, new
        names = f"before {running.name}", f"after {running.name}"
        write_stderr("\n".join(unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")) + "\n")
