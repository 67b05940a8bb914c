"""Specialization: a constant of the program becomes the value that it is bound to.

    spec @tile : u32 = 64                        (--spec tile=32, or its default)
    %t = spec @tile : u32           ->           %t = const 32 : u32
    %n = mul %t, %t : u32                        %n = const 1024 : u32

What then has a known result is folded, and the declarations go.  A type parameter becomes its
type wherever it stands, so the program that is left is of plain types and any pass may take it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.diagnostics import Diagnostic, DiagnosticError, suggest
from ..ir.folding import fold_body
from ..ir.literals import show
from ..ir.program import Module, Program, Spec
from ..ir.rewrite import become, every_op
from ..ir.types import DTYPE
from ..specialization.instantiate import instantiate
from .manager import Context
from .registry import Pass, register


@dataclass(frozen=True)
class SpecializeOptions:
    """`only`: names with + between them (`tile+T`); all constants if empty."""

    only: str = ""


@register
class Specialize(Pass):
    name = "specialize"
    summary = "Replace specialization constants and type parameters by what they are bound to."
    takes_type_parameters = True
    Options = SpecializeOptions

    def run(self, module: Module, ctx: Context) -> bool:
        programs = list(module.programs.values())
        wanted = self.wanted(programs)
        changed = False
        for program in programs:
            chosen = [s for s in program.specs.values() if wanted is None or s.name in wanted]
            _check_bound(chosen)
            if chosen:
                folded = _specialize(program, chosen)
                values = {spec.name: show(spec.default, spec.dtype) for spec in chosen}
                listed = ", ".join(f"@{name} = {value}" for name, value in values.items())
                ctx.remark("applied", f"@{program.name} with {listed}", program.loc, values=values)
                ctx.count("constants bound", len(chosen))
                ctx.count("ops folded", folded)
                changed = True
        return changed

    def wanted(self, programs: list[Program]) -> set[str] | None:
        """The names of `only`; None for all.  Raises DiagnosticError for one that no program has."""
        if not self.options.only:
            return None
        names = [name.removeprefix("@") for name in self.options.only.split("+")]
        known = sorted({name for program in programs for name in program.specs})
        loc = programs[0].loc if programs else None
        errors = [
            Diagnostic("error", f"no program has a spec @{name}", loc, help=suggest(name, known, "@"))
            for name in names
            if name not in known
        ]
        if errors:
            raise DiagnosticError(errors)
        return set(names)


def _check_bound(chosen: list[Spec]) -> None:
    """Raises DiagnosticError for constants without a value."""
    errors = [
        Diagnostic(
            "error",
            f"spec @{spec.name} has no value",
            spec.loc,
            help=f"give it one with --spec {spec.name}=VALUE, or a default",
        )
        for spec in chosen
        if spec.default is None
    ]
    if errors:
        raise DiagnosticError(errors)


def _specialize(program: Program, chosen: list[Spec]) -> int:
    """Bind the constants; how many ops were folded, which waits until all types are known."""
    instantiate(program, {spec.name: spec.default for spec in chosen if spec.dtype is DTYPE})
    values = {spec.name: spec.default for spec in chosen}
    for op in every_op(program.body):
        if op.definition.form == "spec" and op.attrs["spec"] in values:
            become(op, "const", (), {"value": values[op.attrs["spec"]]})
    program.specs = {name: spec for name, spec in program.specs.items() if name not in values}
    return 0 if program.type_parameters else fold_body(program)
