"""`--print-ir-before`, `-after` and so on: prints the module around passes, on stderr or as files of a tree.

DIR/module/00_inline_after.vyre                     a pass that works on the whole module
DIR/module/program_softmax/01_cse_after.vyre        one that works on each program and function by itself
DIR/module_2/...                                    the next module of a --split-input-file
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..ir.program import Func, Module, Program
from ..syntax.printer import print_program
from .errors import write_stderr
from .text_files import write_in_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..passes.manager import Observer, Remark
    from ..passes.registry import Pass
    from .compile_options import CompileOptions

__all__ = ["observers", "print_failure"]


def observers(options: CompileOptions) -> list[Observer]:
    """The observers of the pass manager that print the IR as `options` say."""
    printers: list[Observer] = []
    if options.print_ir_tree_dir is not None:
        printers.append(PrintTree(options, options.print_ir_tree_dir))
        return printers
    if (
        options.print_ir_before
        or options.print_ir_before_all
        or options.print_ir_after
        or options.print_ir_after_all
    ):
        printers.append(PrintIR(options))
    if options.print_ir_after_change:
        printers.append(PrintChange(options))
    return printers


class PrintIR:
    """Prints the whole module before and after the passes that are named."""

    def __init__(self, options: CompileOptions) -> None:
        self.options = options

    def before(self, running: Pass, module: Module) -> None:
        if self.options.print_ir_before_all or running.name in self.options.print_ir_before:
            self.print(f"before {running.name}", module)

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        if self.options.print_ir_after_all or running.name in self.options.print_ir_after:
            self.print(f"after {running.name}{'' if changed else ' (no change)'}", module)

    def print(self, when: str, module: Module) -> None:
        write_stderr(f"// IR {when}\n{_text(module, self.options)}")


class PrintTree:
    """Writes what `PrintIR` prints to files below `folder`; all that passes leave if no option says what."""

    def __init__(self, options: CompileOptions, folder: str) -> None:
        self.options = options
        self.folder = folder
        names = (
            options.print_ir_before,
            options.print_ir_after,
            options.print_ir_before_all,
            options.print_ir_after_change,
        )
        self.prints_all = options.print_ir_after_all or not any(names)
        self.module: Module | None = None
        self.modules = 0
        self.number = 0
        """Number of the pass that runs, from 0 in each module."""

    def before(self, running: Pass, module: Module) -> None:
        if module is self.module:
            self.number += 1
        else:
            self.module, self.number = module, 0
            self.modules += 1
        if self.options.print_ir_before_all or running.name in self.options.print_ir_before:
            self.write("before", running, module)

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        if (
            self.prints_all
            or running.name in self.options.print_ir_after
            or (changed and self.options.print_ir_after_change)
        ):
            self.write("after", running, module)

    def write(self, when: str, running: Pass, module: Module) -> None:
        """Write the module, or each item that a pass works on."""
        root = "module" if self.modules == 1 else f"module_{self.modules}"
        file = f"{self.number:02}_{running.name}_{when}.vyre"
        if not running.per_item:
            write_in_folder(_text(module, self.options), self.folder, os.path.join(root, file))
            return
        for item in module.order:
            if isinstance(item, Program | Func):
                path = os.path.join(root, f"{type(item).__name__.lower()}_{item.name}", file)
                write_in_folder(_text(item, self.options), self.folder, path)


class PrintChange:
    """Prints what each pass changed, as a unified diff; nothing for a pass that changed nothing."""

    def __init__(self, options: CompileOptions) -> None:
        self.options = options
        # what one pass left is what the next finds, so each text is printed once
        self.previous: tuple[Module, str] | None = None

    def before(self, running: Pass, module: Module) -> None:
        if self.previous is None or self.previous[0] is not module:
            self.previous = module, _text(module, self.options)

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        if not changed:
            return
        from difflib import unified_diff

        assert self.previous is not None
        old, new = self.previous[1], _text(module, self.options)
        self.previous = module, new
        names = f"before {running.name}", f"after {running.name}"
        write_stderr("\n".join(unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")) + "\n")


def print_failure(running: Pass, module: Module, options: CompileOptions) -> None:
    """`--print-ir-after-failure`: print what a pass left that failed, as far as it can be printed."""
    try:
        text = _text(module, options)
    except Exception as error:  # it may hold anything
        text = f"// which no text can say: {type(error).__name__}: {error}\n"
    write_stderr(f"// IR after {running.name} failed\n{text}")


def _text(item: Module | Program | Func, options: CompileOptions) -> str:
    return print_program(item, options.print_generic, options.print_locations)
