"""Launch fusion: consecutive launches of a pipeline become one program and one launch.

    runs      launches between host reads, repeats and named kernels              (analysis.launch_flow)
    windows   which consecutive launches of a run may be one program, by proof    (fusion.group_legality)
    plan      the groups: the fewest launches, then the fewest bytes moved        (fusion.liveness_plan)
    grids     neighbouring groups over different grids become one over a third    (fusion.grid_agreement)
    join      one body for a group, with barriers where values are handed over    (fusion.join)

A buffer that only one group uses, and that each workgroup reads only where it wrote before, is
removed from the pipeline; decode_scan_fuse then makes a workgroup tile of it.  A program that lost its
last launch is removed from the module.

The note `fuse = false`, of fusion_pressure or of a user, keeps a launch apart from the one before, and stays.  Other
notes of fusion_pressure are removed: the hand-off no longer exists, or `fuse = true` was not carried out.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ..analysis.equal_lengths import equal_lengths, length_numbers, lengths_by_size, numbers_by_length
from ..analysis.footprint import Footprints
from ..analysis.launch_flow import BufferStages, LaunchDataflow, launch_runs
from ..analysis.locality import TileProof, prove_local
from ..analysis.refusal import Refusal
from ..fusion.bound_program import BoundPrograms
from ..fusion.grid_agreement import GridAgreement, Stretch, form_of, over_grid
from ..fusion.group_legality import (
    HALOS,
    GroupLegality,
    HaloHandoff,
    LaunchNode,
    PairProofs,
    launch_node,
)
from ..fusion.join import JoinPlan, join, joined_name
from ..fusion.launch_order import LaunchOrder
from ..fusion.liveness_plan import PipelineStage, plan_pipeline_fusion
from ..fusion.pair_legality import (
    fill_placeholders,
    placeholder,
    static_grid,
    verify_program,
    with_buffer_names,
)
from ..fusion.remarks import FusionGroup, refuse, remark_cut, remark_joined, remark_storage, separator_refusal
from ..fusion.result_check import JoinedResult, Part, check_joined, refuse_result
from ..fusion.veto import drop_stale_notes, veto_of
from ..fusion.workgroup_memory import workgroup_budget
from ..ir.grids import Extent, fold, lengths_of, renamed_lengths
from ..ir.pipeline import Launch, Pipeline, Repeat, Stage
from ..ir.program import AccessMode, Module, Op, Program
from ..records import dataclass
from ..rewriting.demanded_extents import declare_demands, undeclared_demands
from ..scheduling.relaunch import launched_programs, remove_unlaunched
from .manager import PassContext
from .registry import Pass, register

NO_LIMIT = (1 << 64) - 1


@dataclass(frozen=True)
class LaunchFusionOptions:
    """`max_group`: the most launches that may become one.

    `budget`: bytes of workgroup memory a program may use in all; 0 asks the target (16 KiB by default).
    `max_group_bytes`: the most bytes that the buffers of a group may hold, each counted once, plus the
    largest workgroup memory; 0 for no limit.  A buffer of open size counts as empty.
    `strategy`: `optimal` for the fewest launches and bytes, `greedy` for the longest groups from the left.
    `keep`: leave programs that lost their last launch.
    `cut`: numbers of launches, from 0 in each pipeline, that are not joined with those before them, as `2+5`.
    `halo`: whether a workgroup may recompute elements that it reads of its neighbours: `never`, `always`, or where
    that is `cheap` beside a launch.
    """

    max_group: int = 32
    budget: int = 0
    max_group_bytes: int = 0
    strategy: str = "optimal"
    keep: bool = False
    cut: str = ""
    halo: str = "cheap"

    def __post_init__(self) -> None:
        if self.max_group < 1:
            raise ValueError(f"max_group is a number of launches, not {self.max_group}")
        if self.budget < 0:
            raise ValueError(f"budget is a number of bytes, not {self.budget}")
        if self.max_group_bytes < 0:
            raise ValueError(f"max_group_bytes is a number of bytes, not {self.max_group_bytes}")
        if self.strategy not in ("optimal", "greedy"):
            raise ValueError(f"strategy is optimal or greedy, not {self.strategy}")
        if self.halo not in HALOS:
            raise ValueError(f"halo is {', '.join(HALOS)}, not {self.halo}")
        if not all(number.isascii() and number.isdigit() for number in self.cut.split("+") if self.cut):
            raise ValueError(f"cut is numbers of launches, as 2+5, not {self.cut}")

    @property
    def cuts(self) -> frozenset[int]:
        return frozenset(map(int, self.cut.split("+"))) if self.cut else frozenset()


@register
class LaunchFusion(Pass):
    name = "launch_fusion"
    summary = "Join launches of a pipeline that hand over within workgroups into one program and launch."
    requires = ("expand_kernels",)
    invalidates = ("decode_scan_fuse", "fusion")
    needs_core_ops = True
    Options = LaunchFusionOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        has_declared = declare_demands(module)
        proofs = PairProofs(module)
        budget = self.options.budget or workgroup_budget(ctx.target)
        fuser = _Fuser(module, ctx, proofs, self.options, budget)
        programs = launched_programs(module)
        for pipeline in module.pipelines.values():
            fuser.pipeline(pipeline)
        removed_programs = 0 if self.options.keep else remove_unlaunched(module, programs)
        ctx.count("launches saved", fuser.launches_saved)
        ctx.count("buffers internal", fuser.buffers_removed)
        ctx.count("programs removed", removed_programs)
        return has_declared or fuser.launches_saved > 0 or fuser.notes_dropped


class _Fuser:
    def __init__(
        self, module: Module, ctx: PassContext, proofs: PairProofs, options: LaunchFusionOptions, budget: int
    ) -> None:
        self.module, self.ctx, self.proofs, self.options, self.budget = module, ctx, proofs, options, budget
        # keyed by plans with placeholders for buffers, so that equal groups are joined and proven once
        self.drafts: dict[JoinPlan, tuple[str | None, dict[str, TileProof | Refusal]]] = {}
        self.joined: dict[JoinPlan, _JoinedProgram] = {}
        self.order = LaunchOrder()
        self.runs: list[Sequence[LaunchNode]] = []  # runs of the pipeline, in its order
        self.lengths: dict[Pipeline, dict[str, tuple[int, ...]]] = {}
        self.numbers: dict[int, int] = {}  # number of each launch of the pipeline, by `id(launch)`
        self.demanded: set[str] = set()  # buffers of the pipeline that a launch demands a length of
        self.launches_saved = 0
        self.buffers_removed = 0
        self.notes_dropped = False

    def pipeline(self, pipeline: Pipeline) -> None:
        uses = self.ctx.analyses.get(LaunchDataflow, self.module).uses(pipeline)
        launches = [stage for stage in pipeline.walk() if isinstance(stage, Launch)]
        self.demanded = undeclared_demands(pipeline, self.module)
        self.numbers = {id(launch): number for number, launch in enumerate(launches)}
        groups: list[FusionGroup] = []
        self.runs, self.order.lengths = [], uses.lengths
        sizes, programs = lengths_by_size(pipeline), self.proofs.programs
        for run in launch_runs(pipeline.stages):
            if (separator := run.separator) is not None:
                refuse(self.ctx, pipeline, separator.before, separator.after, separator_refusal(separator))
            if len(run.launches) > 1:
                nodes = [
                    launch_node(self.module, launch, uses.lengths, sizes, programs) for launch in run.launches
                ]
                self.runs.append(nodes)
                groups += self.groups(pipeline, uses, nodes)
        joined = self.checked_programs(pipeline, uses, groups)
        for group in groups:
            self.fuse(pipeline, uses, group, groups, joined[group])
        if groups:
            _remove_fused(pipeline, groups)
        for stage in pipeline.walk():
            if isinstance(stage, Launch):
                self.notes_dropped |= drop_stale_notes(stage)

    # --- planning ---------------------------------------------------------------------------

    def groups(self, pipeline: Pipeline, uses: BufferStages, run: Sequence[LaunchNode]) -> list[FusionGroup]:
        """The groups of two and more launches, drafted and verified, with remarks on all cuts."""
        options = self.options
        separate_ids = {id(node.launch) for node in run if self.numbers[id(node.launch)] in options.cuts}

        def windows_of(nodes: Sequence[LaunchNode]) -> GroupLegality:
            limits = self.budget, options.max_group, options.max_group_bytes
            return GroupLegality(nodes, self.proofs, uses, *limits, options.halo, separate_ids)

        def stretches_of(nodes: Sequence[LaunchNode]) -> tuple[GroupLegality, list[int], list[Stretch]]:
            windows = windows_of(nodes)
            cuts = self.plan(uses, nodes, windows)
            stretches = [
                Stretch(nodes[start:end], [1] * (end - start), windows, start, end)
                for start, end in pairwise([*cuts, len(nodes)])
            ]
            if len(stretches) > 1:
                stretches = GridAgreement(windows_of, uses.lengths).merge(stretches)
            return windows, cuts, stretches

        def count(nodes: Sequence[LaunchNode]) -> int | None:
            """Number of launches after fusion in this order; None if the groups do not keep the launches in order."""
            stretches = stretches_of(nodes)[2]
            numbers = [[self.numbers[id(node.launch)] for node in stretch.nodes] for stretch in stretches]
            is_kept = numbers == sorted(numbers) and all(each == sorted(each) for each in numbers)
            return len(stretches) if is_kept else None

        def stays(node: LaunchNode) -> bool:
            return id(node.launch) in separate_ids or veto_of(node.launch) is not None

        run, missed_moves = self.order.best_order(run, stays, count)
        for follower, leader, refusal in missed_moves:
            message = (
                f"they would be one launch if it came before the launches between, but {refusal.message}"
            )
            refuse(
                self.ctx,
                pipeline,
                leader.launch,
                follower.launch,
                replace(refusal, message=message, reason="order"),
            )
        windows, cuts, stretches = stretches_of(run)
        self.ctx.debug(
            "in @{}, {} launches in a row: {}; groups begin at numbers {}",
            pipeline.name,
            len(run),
            ", ".join(f"@{node.launch.program}" for node in run),
            cuts,
            loc=run[0].launch.loc,
        )
        groups = self.drafts_of(pipeline, stretches)
        for before, stretch in pairwise(stretches):
            if stretch.refusal is not None:
                first, second = before.nodes[-1].launch, stretch.nodes[0].launch
                refuse(self.ctx, pipeline, first, second, stretch.refusal)
            else:
                start = run.index(before.nodes[0])
                remark_cut(self.ctx, pipeline, windows, start, run.index(stretch.nodes[0]))
        return groups

    def drafts_of(self, pipeline: Pipeline, stretches: Sequence[Stretch]) -> list[FusionGroup]:
        """The groups of the stretches with several launches, without those that fail, after a remark."""
        groups: list[FusionGroup] = []
        for stretch in stretches:
            nodes = stretch.nodes
            group = self.draft(pipeline, stretch) if len(nodes) > 1 else None
            if isinstance(group, Refusal):
                refuse(self.ctx, pipeline, nodes[0].launch, nodes[-1].launch, group)
            elif group is not None:
                groups.append(group)
        return groups

    def plan(self, uses: BufferStages, run: Sequence[LaunchNode], windows: GroupLegality) -> list[int]:
        """The indices in the run at which groups begin."""
        if self.options.strategy == "greedy":
            starts = [0]
            for index in range(1, len(run)):
                if not windows.may_join(starts[-1], index):
                    starts.append(index)
            return starts
        escaping = uses.escaping([node.launch for node in run])
        stages = [
            PipelineStage(
                index, tuple(sorted(node.reads)), tuple(sorted(node.writes)), node.member.workgroup_bytes
            )
            for index, node in enumerate(run)
        ]
        sizes = {name: buffer.size_bytes or 0 for name, buffer in uses.pipeline.buffers.items()}
        plan = plan_pipeline_fusion(
            stages, sizes, NO_LIMIT, host_visible=escaping, may_join=windows.may_join, allow_oversize=True
        )
        return [group.stage_ids[0] for group in plan.groups]

    def draft(self, pipeline: Pipeline, stretch: Stretch) -> FusionGroup | Refusal:
        """The group of a stretch, with the hand-offs proven local in its joined program."""
        windows, start, end = stretch.window, stretch.start, stretch.end
        nodes = windows.run[start:end]
        halos = [h for at in range(start, end) for h in windows.halos.get(at, ()) if h.producer >= start]
        tiles = [replace(h.tile, producer=h.producer - start) for h in halos]
        group = FusionGroup(nodes, halos, tiles, frozenset(self.barriers(windows, nodes, halos, start)))
        names = group.buffers
        plan = self.join_plan(pipeline, windows.lengths, group, _placeholders(names))
        if plan not in self.drafts:
            program = join("draft", plan)
            problem = verify_program(self.module, program)
            self.drafts[plan] = (problem, {} if problem else _prove_handoffs(program))
        problem, verdicts = self.drafts[plan]
        if demanded := {tile.buffer for tile in tiles} & self.demanded:
            (name, *_) = sorted(demanded)
            return Refusal("demanded", f"a launch demands a length of @{name} that may be another")
        if problem is not None:
            return Refusal("verify", f"joined, they would not verify: {fill_placeholders(problem, names)}")
        handoff_buffers = _handoff_buffers(nodes)
        for canonical_name, verdict in verdicts.items():
            name = fill_placeholders(canonical_name, names)
            if name in handoff_buffers:
                group.handoffs[name] = (
                    with_buffer_names(verdict, names) if isinstance(verdict, Refusal) else verdict
                )
        return group

    def barriers(
        self, windows: GroupLegality, nodes: Sequence[LaunchNode], halos: Sequence[HaloHandoff], start: int
    ) -> Iterator[int]:
        """The members that need a barrier before them: they access what an earlier member writes."""
        since = 0  # the first member after the last barrier
        for j in range(1, len(nodes)):
            for i in range(since, j):
                is_halo = any((h.producer, h.consumer) == (start + i, start + j) for h in halos)
                if is_halo or windows.pair(start + i, start + j)[0].needs_barrier:
                    yield j
                    since = j
                    break

    def join_plan(
        self,
        pipeline: Pipeline,
        lengths: Mapping[str, int | None],
        group: FusionGroup,
        names: Mapping[str, str],
    ) -> JoinPlan:
        """Plan of the group's program.  `names`: names of its buffers there."""

        def renamed(buffers: Sequence[str]) -> tuple[str, ...]:
            return tuple(names[buffer] for buffer in buffers)

        if pipeline not in self.lengths:
            self.lengths[pipeline] = length_numbers(pipeline)
        # the length of a buffer that this or a later pass may remove, or shrink to a tile, replaces no other length
        removable = {*group.internal, *group.private, *(tile.buffer for tile in group.tiles)}
        permanent = {name: shown for name, shown in names.items() if name not in removable}
        return JoinPlan(
            tuple(replace(member, buffers=renamed(member.buffers)) for member in group.members),
            tuple(sorted(renamed_lengths(lengths, names).items())),
            static_grid(group.nodes[0].grid),
            group.barriers,
            renamed(group.internal),
            renamed(group.local),
            renamed(group.private),
            tuple(replace(tile, buffer=names[tile.buffer]) for tile in group.tiles),
            equal=tuple(equal_lengths(self.lengths[pipeline], {**permanent, **names}).items()),
        )

    # --- fusing -----------------------------------------------------------------------------

    def checked_programs(
        self, pipeline: Pipeline, uses: BufferStages, groups: list[FusionGroup]
    ) -> dict[FusionGroup, _JoinedProgram]:
        """Join each group; groups whose program fails its check are removed from `groups`, after a remark."""
        if not groups:
            return {}
        # not from the caches of the proofs: a check must not share their mistakes
        sizes, numbers = lengths_by_size(pipeline), numbers_by_length(length_numbers(pipeline))
        while True:
            # a buffer is internal to all groups that use it, or to none: they are chosen again where one leaves
            _choose_internal(uses, groups, self.demanded)
            joined = {group: self.join(pipeline, uses, group) for group in groups}
            visibility_refusals = _visibility_refusals(pipeline, groups)
            for group, program in joined.items():
                refusal = (
                    visibility_refusals.get(group)
                    or self.order_refusal(group, groups)
                    or self.check(uses, group, program, sizes, numbers)
                )
                if refusal is not None:
                    programs = [node.launch.program for node in group.nodes]
                    refuse_result(self.ctx, programs, refusal, group.nodes[0].launch.loc)
                    groups.remove(group)
            if len(groups) == len(joined):
                return joined

    def reordered_pairs(
        self, group: FusionGroup, groups: Sequence[FusionGroup]
    ) -> Iterator[tuple[LaunchNode, LaunchNode]]:
        """Pairs of a launch of the group and an earlier launch that it now runs before."""
        (run,) = (run for run in self.runs if any(node.launch is group.nodes[0].launch for node in run))
        positions = self.numbers
        leaders = {
            id(node.launch): positions[id(each.nodes[0].launch)] for each in groups for node in each.nodes
        }
        member_ids = {id(node.launch) for node in group.nodes}
        first = positions[id(group.nodes[0].launch)]
        for node in group.nodes:
            for candidate in run:
                position = positions[id(candidate.launch)]
                runs_later = leaders.get(id(candidate.launch), position) > first
                if (
                    first < position < positions[id(node.launch)]
                    and id(candidate.launch) not in member_ids
                    and runs_later
                ):
                    yield node, candidate

    def order_refusal(self, group: FusionGroup, groups: Sequence[FusionGroup]) -> Refusal | None:
        """Why a group may not run before launches that preceded some of it; asked again as other groups are dropped."""
        return next(
            (r for pair in self.reordered_pairs(group, groups) if (r := self.order.refusal(*pair))), None
        )

    def check(
        self,
        uses: BufferStages,
        group: FusionGroup,
        joined: _JoinedProgram,
        sizes: Mapping[str, Extent | None],
        numbers: Mapping[str, int],
    ) -> Refusal | None:
        """Return the first mistake in the program of a group, compared with its launches, bound and regridded again.

        `sizes`: the lengths of the pipeline's buffers, see `lengths_by_size`; `numbers`: equal numbers for equal lengths.
        """
        parts: list[Part] = []
        for node in group.nodes:
            fresh = launch_node(self.module, node.launch, uses.lengths, sizes, BoundPrograms())
            if node.regrid is None:
                parts.append(Part(fresh.member, fresh.sized_grid))
                continue
            form = form_of(fresh.member, fresh.grid, uses.lengths)
            if isinstance(form, Refusal):
                return form
            regrid = replace(node.regrid, extent=form.extent, single=form.single)
            program = over_grid(form.member, regrid, node.grid[0])
            if isinstance(program, Refusal):
                return program
            parts.append(Part(replace(form.member, program=program), (form.extent, 1, 1), regrid.factor))
        is_regridded = any(node.regrid is not None for node in group.nodes)
        grid = group.nodes[0].grid if is_regridded else parts[0].grid
        names = dict(zip(joined.names, group.buffers, strict=True))
        formal_of = {name: mine for mine, name in names.items()}
        local, halos = (
            [formal_of[name] for name in each] for each in (group.local, (t.buffer for t in group.tiles))
        )
        result = JoinedResult(joined.program, joined.owners, parts, grid, names, numbers, local, halos)
        return check_joined(result)

    def join(self, pipeline: Pipeline, uses: BufferStages, group: FusionGroup) -> _JoinedProgram:
        """The program of a group, which equal groups share."""
        names = group.buffers
        shared = self.join_plan(pipeline, uses.lengths, group, _placeholders(names))
        if shared not in self.joined:
            owners: dict[Op, int] = {}
            plan = self.join_plan(pipeline, uses.lengths, group, dict(zip(names, names, strict=True)))
            self.joined[shared] = _JoinedProgram(join("joined", plan, owners), owners, names)
        return self.joined[shared]

    def fuse(
        self,
        pipeline: Pipeline,
        uses: BufferStages,
        group: FusionGroup,
        groups: Sequence[FusionGroup],
        joined: _JoinedProgram,
    ) -> None:
        """Let the first launch of the group launch the joined program."""
        program, names = joined.program, group.buffers
        if self.module.programs.get(program.name) is not program:
            program.name = joined_name(group.members, self.module.programs)
            self.module.add_before_pipelines(program)
        launch_numbers = [self.numbers[id(node.launch)] for node in group.nodes]
        formal_names = dict(zip(names, joined.names, strict=True))
        free_moves = {pair: self.order.fault_free_node(*pair) for pair in self.reordered_pairs(group, groups)}
        order = [
            tuple(self.numbers[id(each.launch)] for each in (node, other, free))
            for (node, other), free in free_moves.items()
            if free is not None
        ]
        remark_joined(self.ctx, pipeline, group, program, launch_numbers, formal_names, order)
        remark_storage(self.ctx, pipeline, uses, group)
        dropped_buffers = {*group.internal, *(tile.buffer for tile in group.tiles)}
        first = group.nodes[0].launch
        # the first launch's notes are about the launch before the group, so a veto stays valid
        veto = veto_of(first)
        first.members = tuple(replace(node.launch) for node in group.nodes)
        first.program, first.notes = program.name, veto.notes if veto is not None else {}
        first.buffers = tuple(name for name in names if name not in dropped_buffers)
        first.params = {name: name for name in program.params}
        if any(node.regrid is not None for node in group.nodes):
            first.grid = group.nodes[0].grid
        self.launches_saved += len(group.nodes) - 1
        self.buffers_removed += len(dropped_buffers)


class _JoinedProgram(NamedTuple):
    """The program of a group, the members that its ops come from, and the buffers that it was made for."""

    program: Program
    owners: dict[Op, int]
    names: Sequence[str]


def _placeholders(names: Sequence[str]) -> dict[str, str]:
    return {name: placeholder(number) for number, name in enumerate(names)}


def _prove_handoffs(program: Program) -> dict[str, TileProof | Refusal]:
    """The proof, or a refusal, that each buffer which a program reads and writes is local to workgroups."""
    names = [b.name for b in program.bound_buffers if b.access is AccessMode.READ_WRITE]
    return prove_local(Footprints(program), names) if names else {}


def _handoff_buffers(nodes: Sequence[LaunchNode]) -> set[str]:
    """The buffers that one launch writes and a later one reads."""
    writes: set[str] = set()
    handoffs: set[str] = set()
    for node in nodes:
        handoffs |= writes & node.reads
        writes |= node.writes
    return handoffs


def _choose_internal(uses: BufferStages, groups: Sequence[FusionGroup], demanded: Container[str]) -> None:
    """Set the buffers that become internal to groups: local hand-offs that nothing but groups use, each within itself.

    Excluded are buffers of `demanded`, whose extent a launch demands.  Hand-offs of open size become private instead:
    a buffer that only a program declares needs a static count.
    """
    local: dict[int, set[str]] = {}
    for group in groups:
        names = set(group.local)
        local |= {id(node.launch): names for node in group.nodes}
    for group in groups:
        only_in_group = [
            name
            for name in group.local
            if uses.visibility(name) is None
            and name not in demanded
            and all(name in local.get(id(stage), ()) for stage in uses.stages[name])
        ]
        buffers = uses.pipeline.buffers
        group.internal = [name for name in only_in_group if buffers[name].size_bytes]
        in_group = {id(node.launch) for node in group.nodes}
        group.private = [
            name
            for name in only_in_group
            if buffers[name].count is None and all(id(stage) in in_group for stage in uses.stages[name])
        ]


def _visibility_refusals(pipeline: Pipeline, groups: Sequence[FusionGroup]) -> dict[FusionGroup, Refusal]:
    """Refusals of groups that took a buffer for their own although the host or a stage outside the groups uses it."""
    uses = BufferStages(pipeline)
    refusals: dict[FusionGroup, Refusal] = {}
    sharing: dict[str, set[int]] = {}
    for group in groups:
        launches = {id(node.launch) for node in group.nodes}
        sharing |= {name: launches | sharing.get(name, set()) for name in group.internal}
        sharing |= dict.fromkeys((*group.private, *(tile.buffer for tile in group.tiles)), launches)
    for group in groups:
        for name in (*group.internal, *group.private, *(tile.buffer for tile in group.tiles)):
            is_visible = uses.visibility(name) is not None
            if is_visible or any(id(stage) not in sharing[name] for stage in uses.stages[name]):
                refusals[group] = Refusal("seen", f"others see @{name}, which it takes for its own", name)
    return refusals


def _remove_fused(pipeline: Pipeline, groups: Sequence[FusionGroup]) -> None:
    """Remove the launches and buffers that groups absorbed; lengths of such buffers in grids become numbers."""
    absorbed_ids = {id(node.launch) for group in groups for node in group.nodes[1:]}
    dropped_buffers = {name for g in groups for name in (*g.internal, *(tile.buffer for tile in g.tiles))}
    lengths = {
        key: length for key, length in pipeline.static_lengths.items() if key.split(",")[0] in dropped_buffers
    }
    for name in dropped_buffers:
        pipeline.remove_buffer(name)
    pipeline.fold_sizes(lengths)

    def remaining(stages: list[Stage]) -> list[Stage]:
        kept_stages = [stage for stage in stages if id(stage) not in absorbed_ids]
        for stage in kept_stages:
            if isinstance(stage, Repeat):
                stage.stages = remaining(stage.stages)
            elif isinstance(stage, Launch) and any(
                name in dropped_buffers for extent in stage.grid for name in lengths_of(extent)
            ):
                x, y, z = (fold(extent, lengths) for extent in stage.grid)
                stage.grid = (x, y, z)
        return kept_stages

    pipeline.stages = remaining(pipeline.stages)
