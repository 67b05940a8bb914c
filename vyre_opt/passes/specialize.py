"""Specialization: specialization constants become the values that they are bound to.

    spec @tile : u32 = 64                        (--spec tile=32, or its default)
    %t = spec @tile : u32           ->           %t = const 32 : u32
    %n = mul %t, %t : u32                        %n = const 1024 : u32

Ops on them are then folded, and the declarations are removed.  A type parameter becomes its type
wherever it stands, so the program has plain types alone afterwards, which every pass accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.literals import show
from ..ir.pipeline import Pipeline
from ..ir.program import Module, Program, Spec
from ..ir.rewrite import become
from ..ir.suggestions import suggest
from ..ir.types import DTYPE
from ..records import dataclass
from ..rewriting.constant_folding import fold_body
from ..specialization.instantiate import instantiate
from .manager import PassContext
from .registry import Pass, register


@dataclass(frozen=True)
class SpecializeOptions:
    """`only`: the names of the constants to bind, with + between them (`tile+T`); all if empty."""

    only: str = ""


@register
class Specialize(Pass):
    name = "specialize"
    summary = "Replace specialization constants and type parameters by what they are bound to."
    takes_type_parameters = True
    per_item = True
    is_required = True
    Options = SpecializeOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        names = self.selected_names(module.parametric)
        changed = False
        items: Iterator[Program | Pipeline] = chain(ctx.programs(module), module.pipelines.values())
        for item in items:
            specs = [s for s in item.specs.values() if names is None or s.name in names]
            _check_bound(specs)
            if specs:
                fold_count = _specialize(item, specs)
                values = {spec.name: show(spec.default, spec.dtype) for spec in specs}
                assignments = ", ".join(f"@{name} = {value}" for name, value in values.items())
                ctx.remark("applied", f"@{item.name} with {assignments}", item.loc, values=values)
                ctx.count("constants bound", len(specs))
                ctx.count("ops folded", fold_count)
                changed = True
        return changed

    def selected_names(self, items: list[Program | Pipeline]) -> set[str] | None:
        """The names of `only`; None for all.  Raises DiagnosticError for a name that no item declares."""
        if not self.options.only:
            return None
        names = [name.removeprefix("@") for name in self.options.only.split("+")]
        spec_names = sorted({name for item in items for name in item.specs})
        loc = items[0].loc if items else None
        errors = [
            Diagnostic("error", f"no program has a spec @{name}", loc, help=suggest(name, spec_names, "@"))
            for name in names
            if name not in spec_names
        ]
        if errors:
            raise DiagnosticError(errors)
        return set(names)


def _check_bound(specs: list[Spec]) -> None:
    """Raises DiagnosticError for constants without a value."""
    errors = [
        Diagnostic(
            "error",
            f"spec @{spec.name} has no value",
            spec.loc,
            help=f"give it one with --spec {spec.name}=VALUE, or a default",
        )
        for spec in specs
        if spec.default is None
    ]
    if errors:
        raise DiagnosticError(errors)


def _specialize(item: Program | Pipeline, specs: list[Spec]) -> int:
    """Bind the constants; return how many ops were folded.  Nothing is folded while type parameters remain."""
    instantiate(item, {spec.name: spec.default for spec in specs if spec.dtype is DTYPE})
    if isinstance(item, Pipeline):
        return 0
    values = {spec.name: spec.default for spec in specs}
    for op in item.walk():
        if op.definition.format == "spec" and op.attrs["spec"] in values:
            become(op, "const", (), {"value": values[op.attrs["spec"]]})
    item.specs = {name: spec for name, spec in item.specs.items() if name not in values}
    return 0 if item.type_parameters else fold_body(item)
