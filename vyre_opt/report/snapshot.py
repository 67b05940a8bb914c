"""A module as it was before its passes, which change it in place."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.program import Module
from ..records import dataclass
from ..rewriting.cloning import copy_module
from ..syntax.printer import print_program
from .pictures import PipelinePicture, pictures

__all__ = ["ModuleSnapshot", "item_texts", "snapshot"]


@dataclass(frozen=True, slots=True)
class ModuleSnapshot:
    """`pictures`: of its pipelines, by name; `texts`: see `item_texts`; `module`: a copy, if it is to be run."""

    pictures: Mapping[str, PipelinePicture]
    texts: Mapping[str, str]
    module: Module | None


def snapshot(module: Module, *, keeps_module: bool = False) -> ModuleSnapshot:
    """A module as it is now."""
    return ModuleSnapshot(pictures(module), item_texts(module), copy_module(module) if keeps_module else None)


def item_texts(module: Module) -> dict[str, str]:
    """The text of each program, function and pipeline, by `program @name` and the like, without the line of the version."""
    texts = {}
    for item in module.order:
        _, _, text = print_program(item, version=module.version).partition("\n")
        texts[f"{type(item).__name__.lower()} @{item.name}"] = text.lstrip("\n")
    return texts
