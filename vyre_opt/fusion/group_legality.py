"""Which stretches of a run of launches may be one program: `may_join`, answered from proofs on demand.

A launch may join a stretch if it may follow each of its launches (see join_proofs), or reads a
halo of one that can be run again (see halo).  Every condition that holds for a stretch holds
for its tails.  Proofs are kept by what the launches do with each other's buffers, not by which
buffers those are, so a long line of like launches needs few.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..analysis.launch_flow import BufferUses
from ..analysis.refusal import Refusal
from ..ir.grids import Grid, fold
from ..ir.pipeline import Launch
from ..ir.program import AccessMode, Module
from .halo_plan import Cost, is_profitable, plan_tile
from .halo_recompute import Tile
from .join import BoundProgram
from .pair_legality import Verdict, fill_placeholders, incompatible, placeholder, prove_pair

__all__ = ["Halo", "PairProofs", "LaunchNode", "GroupLegality", "with_placeholders", "launch_node"]


@dataclass(eq=False, slots=True)
class LaunchNode:
    """A launch of a run, with what a plan asks of it.

    `reads`, `writes`: as the program declares its buffers, which holds for whatever becomes of it;
    `grid`: folded as far as it is known.
    """

    launch: Launch
    member: BoundProgram
    grid: Grid
    reads: frozenset[str]
    writes: frozenset[str]

    @property
    def touched(self) -> frozenset[str]:
        return self.reads | self.writes

    @property
    def is_aliased(self) -> bool:
        """Whether it passes one buffer for two."""
        return len(self.touched) < len(self.launch.buffers)


def launch_node(module: Module, launch: Launch, lengths: Mapping[str, int | None]) -> LaunchNode:
    """`lengths`: the elements of the pipeline's buffers."""
    member = BoundProgram(module.programs[launch.program], launch.buffers)
    reads = {actual for formal, actual in member.bindings if formal.access is not AccessMode.WRITE}
    writes = {actual for formal, actual in member.bindings if formal.access is not AccessMode.READ}
    x, y, z = (fold(extent, lengths) for extent in launch.grid)
    return LaunchNode(launch, member, (x, y, z), frozenset(reads), frozenset(writes))


@dataclass(frozen=True, slots=True)
class Halo:
    """A hand-off that the consumer's workgroups compute: `producer`, `consumer` are places in the run."""

    producer: int
    consumer: int
    tile: Tile
    cost: Cost
    bytes: int


def with_placeholders(members: Sequence[BoundProgram]) -> tuple[tuple[BoundProgram, ...], list[str]]:
    """The members with placeholders for the buffers they pass, and what each stands for."""
    numbers: dict[str, int] = {}
    found = []
    for member in members:
        places = [numbers.setdefault(name, len(numbers)) for name in member.buffers]
        found.append(BoundProgram(member.program, tuple(map(placeholder, places))))
    return tuple(found), list(numbers)


class PairProofs:
    """Verdicts on pairs of launches, each proven once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.verdicts: dict[Any, Verdict] = {}
        self.tiles: dict[Any, tuple[Tile, Cost] | Refusal] = {}

    def pair(
        self, a: LaunchNode, b: LaunchNode, lengths: Mapping[str, int | None], renewed: Collection[str]
    ) -> tuple[Verdict, list[str], Any]:
        """The verdict in placeholders, what they stand for, and the key under which it is kept.

        `renewed`: buffers that both only read, and that a launch between them writes.
        """
        if not a.touched & b.touched and not (a.is_aliased or b.is_aliased):
            key: Any = (a.member.program, b.member.program, a.grid, b.grid)
            if key not in self.verdicts:
                self.verdicts[key] = Verdict(incompatible(a.member, b.member, (a.grid, b.grid)))
            return self.verdicts[key], [], key
        members, names = with_placeholders((a.member, b.member))
        known = tuple(lengths[name] for name in names)
        changed = frozenset(placeholder(names.index(name)) for name in renewed)
        key = (*members, known, a.grid, b.grid, changed)
        if key not in self.verdicts:
            by_place = {placeholder(at): length for at, length in enumerate(known)}
            first, second = members
            self.verdicts[key] = prove_pair(self.module, first, second, by_place, (a.grid, b.grid), changed)
        return self.verdicts[key], names, key

    def tile(self, key: Any, verdict: Verdict, buffer: str) -> tuple[Tile, Cost] | Refusal:
        """The halo's tile for a pair that `pair` has refused for this buffer alone."""
        assert verdict.facts is not None
        if (key, buffer) not in self.tiles:
            self.tiles[key, buffer] = plan_tile(verdict.facts, buffer)
        return self.tiles[key, buffer]


class GroupLegality:
    """The stretches of one run.

    Each of `max_group` launches, `budget` bytes of workgroup memory, and `max_group_bytes` in all at
    most; 0 is no limit on these.
    """

    def __init__(
        self,
        run: Sequence[LaunchNode],
        proofs: PairProofs,
        uses: BufferUses,
        budget: int,
        max_group: int,
        max_group_bytes: int = 0,
    ) -> None:
        self.run = run
        self.proofs = proofs
        self.uses = uses
        self.budget = budget
        self.max_group = max_group
        self.max_group_bytes = max_group_bytes
        self.lengths = uses.lengths
        self.halos: dict[int, list[Halo]] = {}
        """By consumer, those found so far; those that lie in a group that is made hold."""
        self.refusals: dict[int, tuple[int, Refusal]] = {}
        """By launch, the nearest earlier one that it may not be with, and why."""
        self._floor = [0] * len(run)
        self._seen = list(range(len(run)))
        self._memory = [0]
        self._writers: dict[str, list[int]] = {}
        for place, node in enumerate(run):
            self._memory.append(self._memory[-1] + node.member.workgroup_bytes)
            for name in node.writes:
                self._writers.setdefault(name, []).append(place)

    def may_join(self, first: int, last: int) -> bool:
        """Whether launch `last` may follow in a group of `first` to `last - 1`, which may be one."""
        if last == first:
            return True
        while self._seen[last] > first and self._floor[last] <= first:
            earlier = self._seen[last] - 1
            self._seen[last] = earlier
            refusal = self._pair_refusal(earlier, last)
            if refusal is not None:
                self.refusals[last] = (earlier, refusal)
                self._floor[last] = earlier + 1
        return self._floor[last] <= first and not self.over_limit(first, last)

    def over_limit(self, first: int, last: int) -> Refusal | None:
        """Whether a stretch has too many launches, or needs too much memory."""
        if last - first >= self.max_group:
            return Refusal("max-group", f"a group has at most {self.max_group} launches")
        tiles = [
            h.bytes for at in range(first, last + 1) for h in self.halos.get(at, ()) if h.producer >= first
        ]
        needed = self._memory[last + 1] - self._memory[first] + sum(tiles)
        if needed <= self.budget:
            return self._too_many_bytes(first, last) if self.max_group_bytes else None
        message = f"together they need {needed} bytes of workgroup memory, the budget is {self.budget}"
        return Refusal("budget", message, facts={"required_bytes": needed, "budget_bytes": self.budget})

    def _too_many_bytes(self, first: int, last: int) -> Refusal | None:
        """Whether the launches hold more than max_group_bytes: each buffer once, and the largest scratch."""
        nodes = self.run[first : last + 1]
        buffers = self.uses.pipeline.buffers
        held = sum(buffers[name].size_bytes or 0 for name in frozenset().union(*(k.touched for k in nodes)))
        held += max(node.member.workgroup_bytes for node in nodes)
        if held <= self.max_group_bytes:
            return None
        message = f"together they hold {held} bytes, max_group_bytes is {self.max_group_bytes}"
        facts = {"required_bytes": held, "max_group_bytes": self.max_group_bytes}
        return Refusal("max-group-bytes", message, facts=facts)

    def rewrites_between(self, i: int, j: int) -> dict[str, int]:
        """The buffers that launches i and j both only read, and the first launch between that writes each."""
        a, b = self.run[i], self.run[j]
        found: dict[str, int] = {}
        for name in sorted((a.reads & b.reads) - a.writes - b.writes):
            writers = self._writers.get(name, [])
            at = bisect_right(writers, i)
            if at < len(writers) and writers[at] < j:
                found[name] = writers[at]
        return found

    def pair(self, i: int, j: int) -> tuple[Verdict, list[str], Any]:
        """What is proven of launches i and j with those between them: see `PairProofs.pair`."""
        return self.proofs.pair(self.run[i], self.run[j], self.lengths, self.rewrites_between(i, j))

    def _pair_refusal(self, i: int, j: int) -> Refusal | None:
        """Why launches i and j may not be in one group; None if they may."""
        a, b = self.run[i], self.run[j]
        if b.launch.notes.get("fuse") is False:
            threshold = b.launch.notes.get("threshold")
            if threshold is None:
                return Refusal("pressure", f"@{b.launch.program} has the note fuse = false")
            message = f"the fusion pressure before @{b.launch.program} is above {threshold} elements a link"
            return Refusal("pressure", message, facts={"threshold": threshold})
        verdict, names, key = self.pair(i, j)
        for halo in (h for at in range(i + 1, j) for h in self.halos.get(at, ()) if h.producer == i):
            taken = b.writes & a.reads
            if taken:
                name = min(taken)
                message = (
                    f"@{b.launch.program} writes @{name}, which @{a.launch.program} reads again for a halo"
                )
                return Refusal("halo-producer", message, halo.tile.buffer)
        if verdict.refusal is None:
            return None
        refusal = self._spoken(verdict.refusal, names)
        self._blame_renewals(refusal, i, j)
        if refusal.reason == "raw" and refusal.buffer is not None:
            found = self._halo(i, j, verdict, names, key, refusal)
            if found is None:
                return None
            return found
        return refusal

    def _blame_renewals(self, refusal: Refusal, i: int, j: int) -> None:
        """Say so where the two could be joined but for a launch between that changes what they load."""
        changed = self.rewrites_between(i, j)
        if not changed or self.proofs.pair(self.run[i], self.run[j], self.lengths, ())[0].refusal is not None:
            return
        writers = {name: self.run[at].launch.program for name, at in changed.items()}
        refusal.message += "; " + " and ".join(f"@{by} writes @{name}" for name, by in writers.items())
        refusal.message += " between them, so what they load from it need not be the same"
        refusal.facts["renewed"] = {f"@{name}": f"@{by}" for name, by in writers.items()}

    def _spoken(self, refusal: Refusal, names: list[str]) -> Refusal:
        """A refusal with the pipeline's names of buffers."""
        facts = {
            k: fill_placeholders(v, names) if isinstance(v, str) else v for k, v in refusal.facts.items()
        }
        buffer = fill_placeholders(refusal.buffer, names) if refusal.buffer else None
        return Refusal(refusal.reason, fill_placeholders(refusal.message, names), buffer, refusal.loc, facts)

    # --- halos ----------------------------------------------------------------------------

    def _halo(
        self, i: int, j: int, verdict: Verdict, names: list[str], key: Any, raw: Refusal
    ) -> Refusal | None:
        """Lets launch j compute what it reads of launch i; why not, if it may not."""
        buffer = raw.buffer
        assert buffer is not None
        others = self._other_users(i, j, buffer)
        if others is not None:
            raw.message += f"; it cannot compute that itself, since {others}"
            return raw
        found = self.proofs.tile(key, verdict, placeholder(names.index(buffer)))
        if isinstance(found, Refusal):
            found = self._spoken(found, names)
            found.message = f"{raw.message}; {found.message}"
            found.facts = dict(raw.facts)
            return found
        tile, cost = replace(found[0], buffer=buffer), found[1]
        if not is_profitable(cost):
            message = f"{raw.message}; computing the halo again costs more than a launch: {cost}"
            return Refusal("halo-cost", message, buffer, facts=cost.facts())
        size = self.uses.pipeline.buffers[buffer].dtype.size_bytes or 0
        needed = tile.size * size
        own = self.run[i].member.workgroup_bytes + self.run[j].member.workgroup_bytes
        if needed + own > self.budget:
            message = (
                f"the tile of @{buffer} with its halo takes {needed} bytes of workgroup memory beside {own}"
            )
            message += f", the budget is {self.budget}"
            return Refusal("budget", message, buffer, facts={"required_bytes": needed + own})
        return self._admit_halo(Halo(i, j, tile, cost, needed))

    def _other_users(self, i: int, j: int, buffer: str) -> str | None:
        """Who else than launches i and j touches the buffer, or sees it."""
        visibility = self.uses.visibility(buffer)
        if visibility is not None:
            return f"@{buffer} is seen from outside ({visibility})"
        mine = (self.run[i].launch, self.run[j].launch)
        if any(not any(stage is own for own in mine) for stage in self.uses.stages[buffer]):
            return f"another stage uses @{buffer} too"
        return None

    def _admit_halo(self, halo: Halo) -> Refusal | None:
        """A halo, if nobody from its producer to its consumer writes what the producer reads."""
        i, j = halo.producer, halo.consumer
        reads = self.run[i].reads
        writer = next((k for k in range(i, j + 1) if self.run[k].writes & reads), None)
        if writer is not None:
            name = min(self.run[writer].writes & reads)
            message = (
                f"@{self.run[i].launch.program} would be run again for a halo of @{halo.tile.buffer}, but "
                f"@{self.run[writer].launch.program} writes @{name}, which it reads"
            )
            return Refusal("halo-producer", message, halo.tile.buffer)
        self.halos.setdefault(j, []).append(halo)
        # a stretch that begins before a writer of the producer's reads would hand values on through it
        for k in range(i - 1, max(-1, i - self.max_group), -1):
            if self.run[k].writes & reads:
                self._floor[j] = max(self._floor[j], k + 1)
                name = min(self.run[k].writes & reads)
                message = (
                    f"@{self.run[k].launch.program} writes @{name}, which @{self.run[i].launch.program} reads "
                    f"again for a halo of @{halo.tile.buffer}"
                )
                self.refusals.setdefault(j, (k, Refusal("halo-producer", message, halo.tile.buffer)))
                break
        return None
