"""What an observer of passes is told, to be told again with another result or other remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vyre_opt.ir import Module
from vyre_opt.passes import Pass
from vyre_opt.passes.manager import Remark
from vyre_opt.rewriting.cloning import copy_module

__all__ = ["Recorder", "Step"]


@dataclass(frozen=True)
class Step:
    running: Pass
    before: Module
    after: Module
    changed: bool
    remarks: list[Remark]


@dataclass
class Recorder:
    steps: list[Step] = field(default_factory=list)

    def before(self, running: Pass, module: Module) -> None:
        self._before = copy_module(module)

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        self.steps.append(Step(running, self._before, copy_module(module), changed, list(remarks)))
