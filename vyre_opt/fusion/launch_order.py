"""Another order of launches, in which fewer are left once some become one.

    launch @a (@x, @t)                 launch @a_then_c (@x, @t, @z)
    launch @b (@p, @q)       ->        launch @b (@p, @q)
    launch @c (@t, @z)

A launch may come before another if neither writes what the other touches, they do not both print, and one of them cannot be
at fault, and is not the one that prints: then what a call prints and the fault that it tells are the same in both orders.
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
"""Longer runs are left as they are."""
MAX_TRIES = 64
"""Orders of a run that are planned."""

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
    """Whether a loop may be at fault by its step: one of the text that is constant is at least 1."""
    return op.name == "for" and not isinstance(bounds(op)[2], int)


class LaunchOrder:
    """Launches that may change places, and their best order."""

    def __init__(self) -> None:
        self.lengths: Mapping[str, int | None] = {}
        """Lengths of the pipeline's buffers, see ir/grids.py."""
        self._cannot_fault: dict[tuple[Program, Grid, tuple[Shape, ...]], bool] = {}
        self._prints: dict[Program, bool] = {}

    def refusal(self, one: LaunchNode, other: LaunchNode) -> Refusal | None:
        """Why two launches may not change places."""
        shared = (one.writes & other.touched) | (other.writes & one.touched)
        names = f"@{one.launch.program} and @{other.launch.program}"
        if shared:
            return Refusal("shared", f"{names} share @{min(shared)}", min(shared))
        if self._do_print(one.member.program) and self._do_print(other.member.program):
            return Refusal("prints", f"{names} both print")
        if self.sound_one(one, other) is None:
            why = (
                "one prints, and the other may be at fault, which ends what is printed"
                if any(self._do_print(node.member.program) for node in (one, other))
                else "both may be at fault, and the earlier fault is the one that is told"
            )
            return Refusal("faults", f"{names}: {why}")
        return None

    def sound_one(self, one: LaunchNode, other: LaunchNode) -> LaunchNode | None:
        """One of two launches that cannot be at fault, and prints nothing."""
        silent = [node for node in (one, other) if not self._do_print(node.member.program)]
        return next((node for node in silent if self._is_sound(node)), None)

    def _is_sound(self, node: LaunchNode) -> bool:
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
        """The extents of a buffer of a program, those of the pipeline's where these are known."""
        known = [self.lengths.get(length_key(actual, dimension)) for dimension in range(formal.dimensions)]
        if formal.dimensions == 1:
            known = [self.lengths.get(actual)]
        return tuple(
            one if one is not None else other for one, other in zip(formal.shape, known, strict=True)
        )

    def _do_print(self, program: Program) -> bool:
        if program not in self._prints:
            self._prints[program] = any(op.name in ("debug_print", "call") for op in program.walk())
        return self._prints[program]

    def better(
        self,
        run: Sequence[LaunchNode],
        stays: Callable[[LaunchNode], bool],
        groups_of: Callable[[Sequence[LaunchNode]], int | None],
    ) -> tuple[Sequence[LaunchNode], list[tuple[LaunchNode, LaunchNode, Refusal]]]:
        """The order of a run that leaves the fewest launches by `groups_of`, which gives None for one that may not be, and for each that would leave fewer if it came earlier: itself,
        the launch that it would follow, and why it may not.

        `stays`: whether a launch keeps its place.
        """
        missed: list[tuple[LaunchNode, LaunchNode, Refusal]] = []
        fewest = groups_of(run) if 2 < len(run) <= MAX_LAUNCHES else None
        tries = 0
        for moved in run[2:] if fewest is not None and fewest > 1 else ():
            at = run.index(moved)
            refusal = None
            for before in range(at - 2, -1, -1):
                if stays(moved) or not run[before].touched & moved.touched or tries == MAX_TRIES:
                    continue
                passed = run[before + 1 : at]
                refusal = next((r for other in passed if (r := self.refusal(moved, other))), None)
                if refusal is not None and refusal.reason != "faults":
                    break
                order = [*run[: before + 1], moved, *passed, *run[at + 1 :]]
                tries += 1
                count = groups_of(order)
                if count is None or fewest is None or count >= fewest:
                    continue
                if refusal is not None:
                    missed.append((moved, run[before], refusal))
                    break
                run, fewest = order, count
                break
        return run, missed
