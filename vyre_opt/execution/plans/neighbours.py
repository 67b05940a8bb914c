"""Invocations of a program as it was written whose work one of a coarse program does."""

from __future__ import annotations

from ...ir.program import Dim3
from ...records import dataclass

__all__ = ["ITSELF", "Neighbours"]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Blocks of `x` by `y` invocations, each of which is one.

    `tile`: where the lanes of a subgroup stand, so many along x and along y; None where they are a row of the workgroup.
    `blocks`: that one invocation has, a block of each lane of its workgroup apart along x.
    """

    x: int = 1
    y: int = 1
    tile: tuple[int, int] | None = None
    blocks: int = 1

    @property
    def count(self) -> int:
        return self.x * self.y * self.blocks

    @property
    def groups_along_x(self) -> int:
        """Workgroups as they were written of which a workgroup does the work, along x."""
        return self.x * self.blocks

    def __str__(self) -> str:
        block = f"{self.x} x {self.y}" if self.y > 1 else str(self.x)
        block = f"{self.blocks} times {block}" if self.blocks > 1 else block
        tile = "" if self.tile is None else f" in tiles of {self.tile[0]} x {self.tile[1]}"
        return f"{block}{tile}"

    def grid(self, grid: Dim3) -> Dim3:
        """The workgroups of the coarse program that do the work of those of a grid."""
        return -(-grid[0] // self.groups_along_x), -(-grid[1] // self.y), grid[2]

    def place(self, local: Dim3, lanes: Dim3) -> tuple[int, int]:
        """Place of an invocation in a workgroup of so many lanes."""
        if self.tile is None:
            return local[0], local[1]
        a, b = self.tile
        linear = local[0] + lanes[0] * local[1]
        subgroup = linear // (a * b)
        return (
            linear % a + a * (subgroup % (lanes[0] // a)),
            linear // a % b + b * (subgroup // (lanes[0] // a)),
        )

    def written(
        self, workgroup: Dim3, local: Dim3, lanes: Dim3
    ) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """The workgroup and the local id as they were written of the invocations that one stands for: `4 to 7`."""
        groups: list[object] = []
        ids: list[object] = []
        for group, at, by, width in zip(
            workgroup, self.place(local, lanes), (self.x, self.y), lanes, strict=False
        ):
            turn, lane = divmod(at * by, width)
            blocks = self.blocks if len(groups) == 0 else 1
            numbers = [group * by * blocks + by * block + turn for block in range(blocks)]
            groups.append(numbers[0] if blocks == 1 else " or ".join(map(str, numbers)))
            ids.append(f"{lane} to {lane + by - 1}" if by > 1 else lane)
        return (*groups, workgroup[2]), (*ids, local[2])


ITSELF = Neighbours()
