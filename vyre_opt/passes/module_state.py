"""Change detection between passes: whether a module is the same as at the last snapshot.

Most passes change little or nothing.  So the ops of each item are compared with those of its snapshot, one by one:

    every op is the same object, with the same parts     unchanged, types of results included
    some op is another object                            changed, unless all ops are equal
"""

from __future__ import annotations

from collections.abc import Collection

from ..ir.pipeline import Pipeline
from ..ir.program import Func, Module, Program
from ..ir.snapshot import Snapshot
from ..rewriting.cloning import copy_pipeline

__all__ = ["ModuleState"]

Item = Program | Func | Pipeline


class _PipelineState:
    """A pipeline at one moment; compared by its values, since it is short."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.copy = copy_pipeline(pipeline)

    def holds(self) -> bool:
        now, then = self.pipeline, self.copy
        same_declarations = (now.specs, now.buffers, now.params) == (then.specs, then.buffers, then.params)
        return same_declarations and (now.name, now.stages) == (then.name, then.stages)


class ModuleState:
    """`refresh` takes a snapshot of a module; `is_same` and `is_equal` compare the module with it.

    `changed`: the old snapshots of items that `is_same` found changed.  `is_verified`: whether the verifier has passed
    all items; an input module need not have been verified.
    """

    def __init__(self, is_verified: bool = False) -> None:
        self.is_verified = is_verified
        self.items: dict[Item, Snapshot | _PipelineState] = {}
        self.changed: dict[Item, Snapshot | _PipelineState] = {}
        self.order: list[Item] = []
        self.names: list[dict[str, Item]] = []

    def refresh(self, module: Module) -> None:
        """Take snapshots of new and changed items.  Raises LookupError for an operand that nothing defines."""
        self.items = {item: self.items.get(item) or _capture(item) for item in module.order}
        self.order, self.names = [*module.order], _names(module)

    def is_same(self, module: Module) -> bool:
        """Whether all items are the same and have the same ops; the next `refresh` takes new snapshots of the others."""
        changed = [item for item, state in self.items.items() if not _holds(state)]
        self.changed = {item: self.items.pop(item) for item in changed}
        return not changed and module.order == self.order and _names(module) == self.names

    def intact(self, module: Module) -> Collection[Item]:
        """Items that verified and have not changed, after `is_same`; none if a function that they may call is gone."""
        funcs = [item for item in self.items if isinstance(item, Func)]
        has_all = all(module.funcs.get(func.name) is func for func in funcs)
        return self.items if self.is_verified and has_all else ()

    def is_equal(self, module: Module) -> bool:
        """Whether a module that `is_same` found changed has equal items all the same, in any order."""
        if _names(module) != self.names:
            return False
        self.refresh(module)
        return all(_are_equal(state, self.items[item]) for item, state in self.changed.items())


def _capture(item: Item) -> Snapshot | _PipelineState:
    if isinstance(item, Pipeline):
        return _PipelineState(item)
    state = Snapshot(item, None)
    definitions = {value for _, _, results, _, _ in state.parts for value in results}
    definitions.update(arg for _, _, args, _ in state.blocks for arg in args)
    if not all(definitions.issuperset(operands) for _, operands, _, _, _ in state.parts):
        raise LookupError(f"@{item.name} has an operand that nothing defines")
    return state


def _holds(state: Snapshot | _PipelineState) -> bool:
    try:
        return state.holds()
    except Exception:  # a damaged item: the verifier reports it with a diagnostic
        return False


def _are_equal(before: Snapshot | _PipelineState, after: Snapshot | _PipelineState) -> bool:
    return isinstance(before, Snapshot) and isinstance(after, Snapshot) and before.equals(after)


def _names(module: Module) -> list[dict[str, Item]]:
    return [{**module.programs}, {**module.funcs}, {**module.pipelines}]
