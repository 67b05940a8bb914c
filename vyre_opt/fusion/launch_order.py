"""Reordering of launches, so that fusion leaves fewer of them.

    launch @a (@x, @t)                 launch @a_then_c (@x, @t, @z)
    launch @b (@p, @q)       ->        launch @b (@p, @q)
    launch @c (@t, @z)

Two launches may change places if neither writes a buffer that the other uses, and one of them neither faults nor prints:
then the printed lines and the reported fault are the same in both orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..analysis.bounds import BoundsProofs
from ..analysis.refusal import Refusal
from ..ir.grids import Grid, length_key
from ..ir.loops import bounds
from ..ir.program import Buffer, Op, Program, Shape
from .group_legality import LaunchNode
from .pair_legality import static_grid

__all__ = ["LaunchOrder", "cannot_fault"]

MAX_LAUNCHES = 32
"""Longer runs keep their order."""
MAX_TRIES = 64
"""The most orders of a run that are planned."""

_FAULTING = ("trap", "assert", "check_bounds", "call")


def cannot_fault(program: Program) -> bool:
    """Whether no call of a program ends in a fault: each access is in bounds, and nothing else ends one."""
    ops = list(program.walk())
    if any(op.name in _FAULTING or op.definition.kernel is not None or _has_open_step(op) for op in ops):
        return False
    accesses = [op for op in ops if op.operands and ("buffer" in op.attrs or "buffers" in op.attrs)]
    proven = BoundsProofs(program).proven if accesses else {}
    return all(op in proven for op in accesses)


def _has_open_step(op: Op) -> bool:
    """Whether a loop may fault because of its step; the verifier has checked a constant step."""
    return op.name == "for" and not isinstance(bounds(op)[2], int)


class LaunchOrder:
    """Launches that may change places, and their best order."""

    def __init__(self) -> None:
        self.lengths: Mapping[str, int | None] = {}
        """Lengths of the pipeline's buffers, see ir/grids.py."""
        self._cannot_fault: dict[tuple[Program, Grid, tuple[Shape, ...]], bool] = {}
        self._prints: dict[Program, bool] = {}

    def refusal(self, first: LaunchNode, second: LaunchNode) -> Refusal | None:
        """Why two launches may not change places."""
        shared = (first.writes & second.buffers) | (second.writes & first.buffers)
        names = f"@{first.launch.program} and @{second.launch.program}"
        if shared:
            return Refusal("shared", f"{names} share @{min(shared)}", min(shared))
        if self._may_print(first.member.program) and self._may_print(second.member.program):
            return Refusal("prints", f"{names} both print")
        if self.fault_free_node(first, second) is None:
            reason = (
                "one prints, and the other may be at fault, which ends what is printed"
                if any(self._may_print(node.member.program) for node in (first, second))
                else "both may be at fault, and the earlier fault is the one that is told"
            )
            return Refusal("faults", f"{names}: {reason}")
        return None

    def fault_free_node(self, first: LaunchNode, second: LaunchNode) -> LaunchNode | None:
        """One of two launches that neither faults nor prints; None if there is none."""
        non_printing = [node for node in (first, second) if not self._may_print(node.member.program)]
        return next((node for node in non_printing if self._is_fault_free(node)), None)

    def _is_fault_free(self, node: LaunchNode) -> bool:
        program = node.member.program
        shapes = tuple(self._passed_shape(formal, actual) for formal, actual in node.member.bindings)
        key = program, node.grid, shapes
        if key not in self._cannot_fault:
            formals = zip(program.bound_buffers, shapes, strict=True)
            passed = {formal.name: replace(formal, shape=shape) for formal, shape in formals}
            buffers = {**program.buffers, **passed}
            self._cannot_fault[key] = cannot_fault(
                replace(program, grid=static_grid(node.grid), buffers=buffers)
            )
        return self._cannot_fault[key]

    def _passed_shape(self, formal: Buffer, actual: str) -> Shape:
        """The extents of a program's buffer, completed from the pipeline's buffer."""
        pipeline_extents = [
            self.lengths.get(length_key(actual, dimension)) for dimension in range(formal.dimensions)
        ]
        if formal.dimensions == 1:
            pipeline_extents = [self.lengths.get(actual)]
        return tuple(
            declared if declared is not None else passed
            for declared, passed in zip(formal.shape, pipeline_extents, strict=True)
        )

    def _may_print(self, program: Program) -> bool:
        if program not in self._prints:
            self._prints[program] = any(op.name in ("debug_print", "call") for op in program.walk())
        return self._prints[program]

    def best_order(
        self,
        run: Sequence[LaunchNode],
        stays: Callable[[LaunchNode], bool],
        count_launches: Callable[[Sequence[LaunchNode]], int | None],
    ) -> tuple[Sequence[LaunchNode], list[tuple[LaunchNode, LaunchNode, Refusal]]]:
        """Return the order of a run that leaves the fewest launches, and the moves that would leave fewer but are refused:
        the launch, the launch that it would follow, and the refusal.

        `stays`: whether a launch keeps its place.  `count_launches`: launches after fusion; None for an invalid order.
        """
        missed_moves: list[tuple[LaunchNode, LaunchNode, Refusal]] = []
        fewest = count_launches(run) if 2 < len(run) <= MAX_LAUNCHES else None
        tries = 0
        for node in run[2:] if fewest is not None and fewest > 1 else ():
            index = run.index(node)
            refusal = None
            for before in range(index - 2, -1, -1):
                if stays(node) or not run[before].buffers & node.buffers or tries == MAX_TRIES:
                    continue
                between = run[before + 1 : index]
                refusal = next((r for other in between if (r := self.refusal(node, other))), None)
                if refusal is not None and refusal.reason != "faults":
                    break
                order = [*run[: before + 1], node, *between, *run[index + 1 :]]
                tries += 1
                count = count_launches(order)
                if count is None or fewest is None or count >= fewest:
                    continue
                if refusal is not None:
                    missed_moves.append((node, run[before], refusal))
                    break
                run, fewest = order, count
                break
        return run, missed_moves
