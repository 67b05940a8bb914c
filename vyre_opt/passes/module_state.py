"""Whether a module is still what it was: what the pass manager knows of it between passes.

Most passes change little or nothing.  So the ops of each item are compared with those that it had, one by one:

    every op is the same, with the same parts     nothing has changed, types of results included
    an op is another                              something has, unless it is equal, and so are all others
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
        declared = (now.specs, now.buffers, now.params) == (then.specs, then.buffers, then.params)
        return declared and (now.name, now.stages) == (then.name, then.stages)


class ModuleState:
    """`refresh` takes down what a module is; `is_same` and `is_equal` compare it with that.

    `replaced`: the items that were not the same, as they were.  `is_verified`: whether all items verified since they were
    given; who built a module need not have asked.
    """

    def __init__(self, is_verified: bool = False) -> None:
        self.is_verified = is_verified
        self.items: dict[Item, Snapshot | _PipelineState] = {}
        self.replaced: dict[Item, Snapshot | _PipelineState] = {}
        self.order: list[Item] = []
        self.names: list[dict[str, Item]] = []

    def refresh(self, module: Module) -> None:
        """Take down the items that are new or have changed since.  Raises LookupError for an operand that nothing defines."""
        self.items = {item: self.items.get(item) or _taken(item) for item in module.order}
        self.order, self.names = [*module.order], _names(module)

    def is_same(self, module: Module) -> bool:
        """Whether all items are the same and have the same ops; those that do not are taken down at the next `refresh`."""
        changed = [item for item, state in self.items.items() if not _holds(state)]
        self.replaced = {item: self.items.pop(item) for item in changed}
        return not changed and module.order == self.order and _names(module) == self.names

    def intact(self, module: Module) -> Collection[Item]:
        """Items behind `is_same` that verified and have not changed; none where a function is gone that they may call."""
        funcs = [item for item in self.items if isinstance(item, Func)]
        has_all = all(module.funcs.get(func.name) is func for func in funcs)
        return self.items if self.is_verified and has_all else ()

    def is_equal(self, module: Module) -> bool:
        """Whether an intact module that is not the same has equal items, in any order."""
        if _names(module) != self.names:
            return False
        self.refresh(module)
        return all(_are_equal(state, self.items[item]) for item, state in self.replaced.items())


def _taken(item: Item) -> Snapshot | _PipelineState:
    if isinstance(item, Pipeline):
        return _PipelineState(item)
    state = Snapshot(item, None)
    defined = {value for _, _, results, _, _ in state.parts for value in results}
    defined.update(arg for _, _, args, _ in state.blocks for arg in args)
    if not all(defined.issuperset(operands) for _, operands, _, _, _ in state.parts):
        raise LookupError(f"@{item.name} has an operand that nothing defines")
    return state


def _holds(state: Snapshot | _PipelineState) -> bool:
    try:
        return state.holds()
    except Exception:  # it is damaged, and the verifier says how
        return False


def _are_equal(before: Snapshot | _PipelineState, after: Snapshot | _PipelineState) -> bool:
    return isinstance(before, Snapshot) and isinstance(after, Snapshot) and before.equals(after)


def _names(module: Module) -> list[dict[str, Item]]:
    return [{**module.programs}, {**module.funcs}, {**module.pipelines}]
