"""Legality of groups: the stretches of a run of launches that may become one program (`GroupLegality.may_join`).

A launch may join a stretch if it may follow each launch of it (see pair_legality), or reads a halo of
one that can be run again (see halo_plan).  Every condition that holds for a stretch holds for its
tails, as the planners require.  Proofs are cached by what two launches do with each other's buffers, not
by which buffers those are, so a long line of similar launches needs few.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..analysis.launch_flow import BufferStages
from ..analysis.refusal import Refusal
from ..ir.grids import Extent, Grid, fold, renamed_lengths
from ..ir.pipeline import Launch
from ..ir.program import AccessMode, Module, Program
from ..records import dataclass
from .access_slice import access_slice
from .bound_program import BoundProgram, BoundPrograms
from .halo_plan import Cost, is_profitable, plan_tile
from .halo_recompute import HaloTile
from .pair_legality import LaunchPair, Verdict, incompatible, placeholder, prove_pair, with_buffer_names
from .regrid import Regrid
from .veto import veto_of

__all__ = [
    "HALOS",
    "HaloHandoff",
    "PairProofs",
    "LaunchNode",
    "GroupLegality",
    "with_placeholders",
    "launch_node",
]

HALOS = ("never", "cheap", "always")
"""Condition under which a launch computes again the elements that it reads of its neighbours."""


@dataclass(eq=False, slots=True)
class LaunchNode:
    """A launch of a run, with the facts that proofs and planners need.

    `reads`, `writes`: the pipeline's buffers, by the declared access of the program's buffers; its ops may do less.
    `grid`: the launch's grid with known lengths put in.  `sized_grid`: with the sizes of buffers put in, too: grids are
    compared by it.  `regrid`: the change from the launch's own grid; then `member` has the program for the new grid.
    `max_groups`: upper bound of the workgroups that access memory, for an open grid, if known.
    """

    launch: Launch
    member: BoundProgram
    grid: Grid
    sized_grid: Grid
    reads: frozenset[str]
    writes: frozenset[str]
    regrid: Regrid | None = None
    max_groups: int | None = None

    @property
    def buffers(self) -> frozenset[str]:
        return self.reads | self.writes

    @property
    def is_aliased(self) -> bool:
        """Whether the launch passes one buffer for two parameters of the program."""
        return len(self.buffers) < len(self.launch.buffers)


def launch_node(
    module: Module,
    launch: Launch,
    lengths: Mapping[str, int | None],
    sizes: Mapping[str, Extent | None],
    programs: BoundPrograms,
) -> LaunchNode:
    """`lengths`: the elements of the pipeline's buffers; `sizes`: as expressions, too (see `lengths_by_size`)."""
    member = programs.of(module.programs[launch.program], launch, lengths)
    reads = {actual for formal, actual in member.bindings if formal.access is not AccessMode.WRITE}
    writes = {actual for formal, actual in member.bindings if formal.access is not AccessMode.READ}
    x, y, z = (fold(extent, lengths) for extent in launch.grid)
    sized_x, sized_y, sized_z = (fold(extent, sizes) for extent in launch.grid)
    sized = sized_x, sized_y, sized_z
    return LaunchNode(launch, member, (x, y, z), sized, frozenset(reads), frozenset(writes))


@dataclass(frozen=True, slots=True)
class HaloHandoff:
    """A hand-off that the consumer's workgroups compute again; `producer`, `consumer`: positions in the run."""

    producer: int
    consumer: int
    tile: HaloTile
    cost: Cost
    bytes: int


def with_placeholders(members: Sequence[BoundProgram]) -> tuple[tuple[BoundProgram, ...], list[str]]:
    """The members with placeholders for the buffers they pass, and the buffers by placeholder number."""
    numbers: dict[str, int] = {}
    canonical = []
    for member in members:
        indices = [numbers.setdefault(name, len(numbers)) for name in member.buffers]
        canonical.append(replace(member, buffers=tuple(map(placeholder, indices))))
    return tuple(canonical), list(numbers)


class PairProofs:
    """A cache of verdicts on pairs of launches, and of tiles for their halos."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.programs = BoundPrograms()
        self.verdicts: dict[Hashable, Verdict] = {}
        self._joinable: dict[Hashable, Verdict] = {}
        """Verdicts without a refusal, keyed by the slices of the programs.  A refusal names its programs and locations, so
        it cannot be shared by slice."""
        self._representatives: dict[Program, Program] = {}
        self._by_slice: dict[Hashable, Program] = {}
        self.tiles: dict[Hashable, tuple[HaloTile, Cost] | Refusal] = {}

    def pair(
        self, a: LaunchNode, b: LaunchNode, lengths: Mapping[str, int | None], rewritten: Collection[str]
    ) -> tuple[Verdict, list[str], Any]:
        """The verdict, with placeholders for buffers; the buffers by placeholder number; the verdict's key in the cache.

        `rewritten`: buffers that both only read and that a launch between them writes.
        """
        grids = a.grid, a.grid if a.sized_grid == b.sized_grid else b.grid
        if not a.buffers & b.buffers and not (a.is_aliased or b.is_aliased):
            key = a.member.program, b.member.program, grids
            if key not in self.verdicts:
                self.verdicts[key] = Verdict(incompatible(*key))
            return self.verdicts[key], [], key
        members, names = with_placeholders((a.member, b.member))
        known_lengths = renamed_lengths(
            lengths, {name: placeholder(number) for number, name in enumerate(names)}
        )
        rewritten_formals = frozenset(placeholder(names.index(name)) for name in rewritten)
        first, second = members
        limits = a.max_groups, b.max_groups
        max_groups = None if None in limits else max(limit or 0 for limit in limits)
        pair = LaunchPair(
            (first, second), tuple(sorted(known_lengths.items())), grids, rewritten_formals, max_groups
        )
        if pair not in self.verdicts:
            canonical = replace(pair, members=(self._representative(first), self._representative(second)))
            verdict = self._joinable.get(canonical)
            if verdict is None:
                verdict = prove_pair(self.module, pair)
                if verdict.refusal is None:
                    self._joinable[canonical] = verdict
            self.verdicts[pair] = verdict
        return self.verdicts[pair], names, pair

    def _representative(self, member: BoundProgram) -> BoundProgram:
        """The member, with its program replaced by the first one of equal slice."""
        program = member.program
        if program not in self._representatives:
            self._representatives[program] = self._by_slice.setdefault(access_slice(program), program)
        return replace(member, program=self._representatives[program])

    def tile(self, key: Any, verdict: Verdict, buffer: str) -> tuple[HaloTile, Cost] | Refusal:
        """The halo's tile for a pair that `pair` refused with the reason `raw` for this buffer."""
        assert verdict.accesses is not None
        if (key, buffer) not in self.tiles:
            self.tiles[key, buffer] = plan_tile(verdict.accesses, buffer)
        return self.tiles[key, buffer]


class GroupLegality:
    """The stretches of one run that may become one program.

    A stretch has at most `max_group` launches, `budget` bytes of workgroup memory, and `max_group_bytes`
    bytes of buffers; 0 is no limit on the last.  `halo`: one of HALOS.  `cuts`: the ids of launches that begin a stretch.
    """

    def __init__(
        self,
        run: Sequence[LaunchNode],
        proofs: PairProofs,
        uses: BufferStages,
        budget: int,
        max_group: int,
        max_group_bytes: int = 0,
        halo: str = "cheap",
        cuts: Collection[int] = (),
    ) -> None:
        self.run = run
        self.proofs = proofs
        self.uses = uses
        self.budget = budget
        self.max_group = max_group
        self.max_group_bytes = max_group_bytes
        self.halo = halo
        self.cuts = cuts
        self.lengths = uses.lengths
        self.halos: dict[int, list[HaloHandoff]] = {}
        """Consumer -> its halos so far.  A halo matters only to groups that contain its producer."""
        self.refusals: dict[int, tuple[int, Refusal]] = {}
        """Launch -> (the nearest earlier launch that it may not share a group with, why)."""
        self._pairs: dict[tuple[int, int], tuple[Verdict, list[str], Any]] = {}
        self._earliest = [0] * len(run)  # of each launch, the first that a group with it may begin at
        self._checked_from = list(range(len(run)))  # of each launch, the earliest it was checked against
        self._memory = [0]  # prefix sums of the launches' workgroup memory
        self._writers: dict[str, list[int]] = {}
        for position, node in enumerate(run):
            self._memory.append(self._memory[-1] + node.member.workgroup_bytes)
            for name in node.writes:
                self._writers.setdefault(name, []).append(position)

    def may_join(self, first: int, last: int) -> bool:
        """Whether launch `last` may follow in the group of `first` to `last - 1`, which may be one."""
        if last == first:
            return True
        # from the nearest launch to the farthest: the first refusal excludes all groups that begin before it
        while self._checked_from[last] > first and self._earliest[last] <= first:
            earlier = self._checked_from[last] - 1
            self._checked_from[last] = earlier
            refusal = self._pair_refusal(earlier, last)
            if refusal is not None:
                self.refusals[last] = (earlier, refusal)
                self._earliest[last] = earlier + 1
        return self._earliest[last] <= first and not self.over_limit(first, last)

    def over_limit(self, first: int, last: int) -> Refusal | None:
        """Why a stretch has too many launches or needs too much memory; None if it does not."""
        if last - first >= self.max_group:
            return Refusal("max-group", f"a group has at most {self.max_group} launches")
        tiles = [
            h.bytes
            for index in range(first, last + 1)
            for h in self.halos.get(index, ())
            if h.producer >= first
        ]
        required = self._memory[last + 1] - self._memory[first] + sum(tiles)
        if required <= self.budget:
            return self._over_group_bytes(first, last) if self.max_group_bytes else None
        message = f"together they need {required} bytes of workgroup memory, the budget is {self.budget}"
        return Refusal("budget", message, facts={"required_bytes": required, "budget_bytes": self.budget})

    def _over_group_bytes(self, first: int, last: int) -> Refusal | None:
        """Why a stretch needs more than max_group_bytes, with each buffer once and the largest scratch; None if not."""
        nodes = self.run[first : last + 1]
        buffers = self.uses.pipeline.buffers
        size = sum(buffers[name].size_bytes or 0 for name in frozenset().union(*(k.buffers for k in nodes)))
        size += max(node.member.workgroup_bytes for node in nodes)
        if size <= self.max_group_bytes:
            return None
        message = f"together they hold {size} bytes, max_group_bytes is {self.max_group_bytes}"
        facts = {"required_bytes": size, "max_group_bytes": self.max_group_bytes}
        return Refusal("max-group-bytes", message, facts=facts)

    def rewrites_between(self, i: int, j: int) -> dict[str, int]:
        """The buffers that launches i and j both only read, each with the first launch between that writes it."""
        a, b = self.run[i], self.run[j]
        rewrites: dict[str, int] = {}
        for name in sorted((a.reads & b.reads) - a.writes - b.writes):
            writers = self._writers.get(name, [])
            at = bisect_right(writers, i)
            if at < len(writers) and writers[at] < j:
                rewrites[name] = writers[at]
        return rewrites

    def pair(self, i: int, j: int) -> tuple[Verdict, list[str], Any]:
        """The verdict on launches i and j, given those between them: see `PairProofs.pair`."""
        if (i, j) not in self._pairs:
            rewritten = self.rewrites_between(i, j)
            self._pairs[i, j] = self.proofs.pair(self.run[i], self.run[j], self.lengths, rewritten)
        return self._pairs[i, j]

    def _pair_refusal(self, i: int, j: int) -> Refusal | None:
        """Why launches i and j may not be in one group; None if they may."""
        a, b = self.run[i], self.run[j]
        first, second = a.launch.program, b.launch.program
        veto = veto_of(b.launch)
        if veto is not None:
            if veto.is_from_user:
                return Refusal("pressure", f"@{second} has the note fuse = false")
            message = f"the fusion pressure before @{second} is above {veto.threshold} elements a link"
            return Refusal("pressure", message, facts={"threshold": veto.threshold})
        if id(b.launch) in self.cuts:
            return Refusal("cut", f"the option cut says that @{second} begins a group")
        verdict, names, key = self.pair(i, j)
        # a halo makes workgroups run the producer again, later than before: its inputs must not have changed
        for halo in (h for index in range(i + 1, j) for h in self.halos.get(index, ()) if h.producer == i):
            conflicts = b.writes & a.reads
            if conflicts:
                name = min(conflicts)
                message = f"@{second} writes @{name}, which @{first} reads again for a halo"
                return Refusal("halo-producer", message, halo.tile.buffer)
        if verdict.refusal is None:
            return None
        refusal = with_buffer_names(verdict.refusal, names)
        self._explain_rewrites(refusal, i, j)
        if refusal.reason == "raw" and refusal.buffer is not None and self.halo != "never":
            return self._plan_halo(i, j, verdict, names, key, refusal)
        return refusal

    def _explain_rewrites(self, refusal: Refusal, i: int, j: int) -> None:
        """Extend the message if the two could be joined, were it not for a launch between that writes what both load."""
        rewrites = self.rewrites_between(i, j)
        if (
            not rewrites
            or self.proofs.pair(self.run[i], self.run[j], self.lengths, ())[0].refusal is not None
        ):
            return
        writers = {name: self.run[index].launch.program for name, index in rewrites.items()}
        refusal.message += "; " + " and ".join(
            f"@{writer} writes @{name}" for name, writer in writers.items()
        )
        refusal.message += " between them, so what they load from it need not be the same"
        refusal.facts["renewed"] = {f"@{name}": f"@{writer}" for name, writer in writers.items()}

    # --- halos ----------------------------------------------------------------------------

    def _plan_halo(
        self, i: int, j: int, verdict: Verdict, names: list[str], key: Any, raw: Refusal
    ) -> Refusal | None:
        """Let launch j recompute the elements that it reads of launch i.  Returns why it may not; None if it may."""
        buffer = raw.buffer
        assert buffer is not None
        other_users = self._other_users(i, j, buffer)
        if other_users is not None:
            raw.message += f"; it cannot compute that itself, since {other_users}"
            return raw
        plan = self.proofs.tile(key, verdict, placeholder(names.index(buffer)))
        if isinstance(plan, Refusal):
            refusal = with_buffer_names(plan, names)
            refusal.message = f"{raw.message}; {refusal.message}"
            refusal.facts = dict(raw.facts)
            return refusal
        tile, cost = replace(plan[0], buffer=buffer), plan[1]
        if self.halo != "always" and not is_profitable(cost):
            message = f"{raw.message}; computing the halo again costs more than a launch: {cost}"
            return Refusal("halo-cost", message, buffer, facts=cost.facts())
        tile_bytes = tile.size * (self.uses.pipeline.buffers[buffer].dtype.size_bytes or 0)
        workgroup_bytes = self.run[i].member.workgroup_bytes + self.run[j].member.workgroup_bytes
        if tile_bytes + workgroup_bytes > self.budget:
            message = (
                f"the tile of @{buffer} with its halo takes {tile_bytes} bytes of workgroup memory beside {workgroup_bytes}, "
                f"the budget is {self.budget}"
            )
            return Refusal("budget", message, buffer, facts={"required_bytes": tile_bytes + workgroup_bytes})
        return self._admit_halo(HaloHandoff(i, j, tile, cost, tile_bytes))

    def _other_users(self, i: int, j: int, buffer: str) -> str | None:
        """Other users of the buffer, in words; None without any.  The tiles of a halo exist only within the two launches."""
        visibility = self.uses.visibility(buffer)
        if visibility is not None:
            return f"@{buffer} is seen from outside ({visibility})"
        pair = (self.run[i].launch, self.run[j].launch)
        if any(not any(stage is launch for launch in pair) for stage in self.uses.stages[buffer]):
            return f"another stage uses @{buffer} too"
        return None

    def _admit_halo(self, halo: HaloHandoff) -> Refusal | None:
        """Record a halo, unless a launch from its producer to its consumer writes what the producer reads."""
        i, j = halo.producer, halo.consumer
        reads, producer = self.run[i].reads, self.run[i].launch.program
        writer = next((k for k in range(i, j + 1) if self.run[k].writes & reads), None)
        if writer is not None:
            name = min(self.run[writer].writes & reads)
            message = (
                f"@{producer} would be run again for a halo of @{halo.tile.buffer}, but "
                f"@{self.run[writer].launch.program} writes @{name}, which it reads"
            )
            return Refusal("halo-producer", message, halo.tile.buffer)
        self.halos.setdefault(j, []).append(halo)
        # In a group that begins before a writer of what the producer reads, a workgroup would run the producer
        # again on elements that other workgroups have not written yet.
        for k in range(i - 1, max(-1, i - self.max_group), -1):
            if self.run[k].writes & reads:
                self._earliest[j] = max(self._earliest[j], k + 1)
                name = min(self.run[k].writes & reads)
                message = (
                    f"@{self.run[k].launch.program} writes @{name}, which @{producer} reads again for a halo "
                    f"of @{halo.tile.buffer}"
                )
                self.refusals.setdefault(j, (k, Refusal("halo-producer", message, halo.tile.buffer)))
                break
        return None
