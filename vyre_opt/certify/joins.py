"""The claim of `launch_fusion`: launches may be one.

The joined program is their bodies, see `bodies`.  Buffers that leave the pipeline nobody else needs, and what a
workgroup reads of them it has written itself.

Launches run one after the other.  Joined, nothing orders different workgroups any more, and in a workgroup only a
barrier orders different lanes.  So wherever two of the launches meet in memory, one of them writing, it must be the same
workgroup; and the same lane, where no barrier is put between them.

A race in one of the launches is an error of the program, so none is assumed to be: what a launch stores, it does not
access by the lane that the other launch's access is made by, if that is of another workgroup, or no barrier is in it.

A launch that stood behind others and runs before them now changes places with each: neither writes a buffer that the other has,
they do not both print, and one of them never faults, so that a call tells the fault that it told.

What memory holds is a function of the element.  Launches of the group that write a buffer leave another function behind.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import combinations, product

import z3

from ..ir.grids import Extent, GridError, evaluate, renamed_lengths
from ..ir.literals import encode
from ..ir.loops import Bound, bounds
from ..ir.ops import AXES
from ..ir.pipeline import Launch, Pipeline, Repeat
from ..ir.program import AccessMode, Buffer, Module, Program
from ..ir.shapes import shapes_agree
from ..records import dataclass
from .accesses import Access, Indices, accesses_of, are_apart, is_inside, named
from .bodies import Body, BodyMatch, Halo
from .grid_terms import lengths_in_range
from .in_bounds import shown_at
from .lengths import LengthTerms
from .mismatch import Mismatch
from .obligations import Obligation, not_seen
from .pipelines import who_sees
from .points import Grid, Group, Nesting, Point
from .regridded import Regridded, expected_program
from .tiles import covered

__all__ = ["Join", "joined", "meet_in_one"]


@dataclass(frozen=True)
class Join:
    """`launches` of a pipeline became one of `program`, `after`.

    `barriers`: the launches that get a barrier before them, by their index.  `buffers`: the program's name for each of
    their buffers.  `fused`: all launches of the pipeline that became part of another one at the same time.  `regrids`:
    if the grid is another one, for each launch how many of its workgroups one of that runs, and whether its loop over
    the grid has a single round.  `leaders`: by the id of a launch that became part of another, the first of them.
    `sound`: by the ids of a launch and of one that it runs before now, the one of both that never faults.
    """

    module: Module
    pipeline: Pipeline
    launches: Sequence[Launch]
    program: Program
    after: Launch | None
    left: frozenset[str]
    barriers: Sequence[int]
    buffers: Mapping[str, str]
    halos: Sequence[Halo]
    fused: Sequence[Launch]
    regrids: Sequence[tuple[int, bool]] = ()
    leaders: Mapping[int, Launch] = field(default_factory=dict)
    sound: Mapping[tuple[int, int], Launch] = field(default_factory=dict)

    @property
    def programs(self) -> list[Program]:
        return [self.module.programs[launch.program] for launch in self.launches]


@dataclass(frozen=True)
class _Member:
    """A launch of the group.  `names`: the pipeline's buffer for each of the program's; `grid`: its workgroups, None
    along an axis where that depends on lengths that are not known.  `accesses`: those that are looked at.
    `params`: see `Group`."""

    nesting: Nesting
    accesses: Sequence[Access]
    names: dict[str, str]
    grid: Grid
    contents: dict[str, str]
    lengths: dict[str, int]
    params: dict[str, str | int]

    def group(self, name: str) -> Group:
        """Any workgroup of the launch."""
        return Group(self.nesting.program, name, self.grid, self.lengths, params=self.params)

    def point(self, group: str, name: str) -> Point:
        """Any lane of any workgroup of the launch."""
        return Point.any(self.nesting, self.group(group), name, self.contents)

    def formals(self, name: str) -> list[Buffer]:
        """The program's buffers for one of the pipeline."""
        buffers = self.nesting.program.buffers
        return [buffers[formal] for formal, actual in self.names.items() if actual == name]

    def again(self, bodies: BodyMatch, number: int) -> _Member:
        """The launch as the joined program runs it, each workgroup for its neighbours too."""
        ops = {its for (launch, _), its in bodies.again.items() if launch == number}
        joined = bodies.nesting
        names = {its: name for name, its in bodies.buffers.items()}
        lengths = {its: n for its, name in names.items() if (n := bodies.lengths[name]) is not None}
        contents = {its: f"{names[its]}.0" for its in names if its not in bodies.written}
        accesses = [access for access in accesses_of(joined) if access.op in ops]
        params: dict[str, str | int] = {name: name for name in joined.program.params}
        return _Member(joined, accesses, names, self.grid, contents, lengths, params)


def joined(join: Join) -> Iterator[Obligation]:
    """All that has to hold."""
    programs, obligations = join.programs, list[Obligation]()
    grid = None if not join.regrids or join.after is None else _grid(join.after, join.pipeline.static_lengths)
    try:
        if grid is not None:
            programs, obligations = _regridded(join)
    except Mismatch as mismatch:
        yield not_seen("the launches may run over another grid", str(mismatch), mismatch.ops)
        return
    yield from obligations
    members = list(_members(join.pipeline, join.launches, programs, grid))
    terms = LengthTerms(join.pipeline.buffers)
    bodies = BodyMatch(
        join.program,
        [Body(member.nesting.program, member.names, member.params) for member in members],
        join.buffers,
        join.pipeline.static_lengths,
        join.barriers,
        join.halos,
        members[0].grid,
        equal=terms.equal(),
        agree=terms.agree,
    )
    try:
        bodies.match()
        _match_launch(join, members)
        passed = list(_match_pipeline(join))
    except Mismatch as mismatch:
        yield not_seen(
            "the joined program runs the bodies of the launches in order", str(mismatch), mismatch.ops
        )
        return
    yield from bodies.places()
    for moved, other in passed:
        yield from _change_places(join, moved, other)
    yield from _covered(join, bodies)
    again = {halo.producer for halo in join.halos}
    for number in again:
        members[number] = members[number].again(bodies, number)
    yield from _meetings(members, join.barriers, {halo.buffer for halo in join.halos})


def _params(launch: Launch, program: Program) -> dict[str, str | int]:
    """Pipeline's param, or encoded value, of each runtime scalar of a launch's program."""
    values: dict[str, str | int] = {}
    for name, param in program.params.items():
        value = launch.params.get(name)
        if isinstance(value, tuple):
            values[name] = encode(value, param.dtype)
        elif value is not None or param.default is not None:
            values[name] = param.default or 0 if value is None else value
    return values


def meet_in_one(
    module: Module, pipeline: Pipeline, launches: Sequence[Launch], barriers: Sequence[int]
) -> Iterator[Obligation]:
    """Wherever two of the launches meet in memory, one of them writing, it is one workgroup."""
    programs = [module.programs[launch.program] for launch in launches]
    return _meetings(list(_members(pipeline, launches, programs)), barriers, frozenset())


def _meetings(
    members: Sequence[_Member], barriers: Sequence[int], tiles: Container[str]
) -> Iterator[Obligation]:
    """`tiles`: buffers that became tiles, one for each workgroup."""
    for i, j in combinations(range(len(members)), 2):
        has_barrier = any(i < index <= j for index in barriers)
        for a, b in product(members[i].accesses, members[j].accesses):
            buffer = members[i].names.get(a.buffer)
            if (
                buffer is not None
                and buffer not in tiles
                and buffer == members[j].names.get(b.buffer)
                and (a.is_write or b.is_write)
            ):
                yield _meet_in_one(members[i], members[j], a, b, has_barrier)


def _match_launch(join: Join, members: Sequence[_Member]) -> None:
    """The launch of the joined program is over the same grid, with the buffers of the launches."""
    if join.after is None or join.after.program != join.program.name:
        raise Mismatch(f"@{join.program.name} is not launched in their place")
    lengths = join.pipeline.static_lengths
    terms = LengthTerms(join.pipeline.buffers)
    for launch in () if join.regrids else (*join.launches, join.after):
        are_equal = all(map(terms.agree, launch.grid, join.launches[0].grid))
        if _grid(launch, lengths) != members[0].grid or not are_equal:
            raise Mismatch("the grids are not equal")
    if len(set(join.buffers.values())) < len(join.buffers):
        raise Mismatch("two buffers became one")
    for name, formal in join.buffers.items():
        _match_buffer(join, name, join.program.buffers[formal], members)
    bound = [buffer.name for buffer in join.program.bound_buffers]
    if [join.buffers.get(name) for name in join.after.buffers] != bound:
        raise Mismatch(f"@{join.program.name} is launched with other buffers")
    if any(join.after.params.get(name) != name for name in join.program.params):
        raise Mismatch(f"@{join.program.name} is launched with other scalars")


def _match_buffer(join: Join, name: str, declared: Buffer, members: Sequence[_Member]) -> None:
    """The joined program's buffer for one of the pipeline."""
    actual = join.pipeline.buffers[name]
    is_tile = any(halo.buffer == name for halo in join.halos)
    if declared.binding is None and name not in join.left:
        raise Mismatch(f"@{name} stays in the pipeline, which sees nothing of it")
    is_open = declared.binding is not None and shapes_agree(declared.shape, actual.shape)
    if not is_tile and (declared.is_workgroup or not (is_open or declared.shape == actual.shape)):
        raise Mismatch(f"@{name} is declared otherwise")
    formals = [formal for member in members for formal in member.formals(name)]
    was_output = any(formal.live_out or formal.access is AccessMode.WRITE for formal in formals)
    if declared.binding is not None and was_output and not declared.is_output:
        seen = who_sees(join.pipeline, name, {id(launch) for launch in join.launches})
        if seen is not None:
            raise Mismatch(f"@{name} is not an output any more, and {seen}")


def _match_pipeline(join: Join) -> list[tuple[Launch, Launch]]:
    """Nothing but launches is between the launches: each of them with each that it runs before now.  Buffers that left the pipeline nobody else uses: not the host, and no
    stage that is not a part of a launch now."""
    lists = [join.pipeline.stages, *(s.stages for s in join.pipeline.walk() if isinstance(s, Repeat))]
    (stages,) = (stages for stages in lists if any(stage is join.launches[0] for stage in stages))
    place = {id(stage): number for number, stage in enumerate(stages)}
    places = [place.get(id(launch), -1) for launch in join.launches]
    if places != sorted(places) or places[0] < 0:
        raise Mismatch("the launches do not follow each other")
    passed: list[tuple[Launch, Launch]] = []
    for stage in stages[places[0] : places[-1] + 1]:
        if not isinstance(stage, Launch):
            raise Mismatch("the launches do not follow each other: a stage between them is no launch")
        behind = [launch for launch in join.launches if place[id(launch)] > place[id(stage)]]
        leader = place.get(id(join.leaders.get(id(stage), stage)), -1)
        if id(stage) not in {id(launch) for launch in join.launches} and leader > places[0]:
            passed += [(launch, stage) for launch in behind]
    inside = {id(launch) for launch in join.fused}
    for name in join.left & join.buffers.keys():
        seen = who_sees(join.pipeline, name, inside)
        if seen is not None:
            raise Mismatch(seen)
    return passed


def _change_places(join: Join, moved: Launch, other: Launch) -> Iterator[Obligation]:
    """A launch that stood behind another one runs before it."""
    what = f"@{moved.program} may run before @{other.program}"
    uses = [_uses(launch, join.module.programs[launch.program]) for launch in (moved, other)]
    (touched, written, prints), (others, others_written, other_prints) = uses
    if shared := (touched & others_written) | (written & others):
        yield not_seen(what, f"both use @{min(shared)}, and one writes it", [])
        return
    if prints and other_prints:
        yield not_seen(what, "both print", [])
        return
    sound = join.sound.get((id(moved), id(other)))
    if sound is not moved and sound is not other:
        yield not_seen(what, "none of both is said to be without faults", [])
        return
    if prints if sound is moved else other_prints:
        yield not_seen(what, "a fault of the other one would end what is printed", [])
        return
    (member,) = _members(join.pipeline, [sound], [join.module.programs[sound.program]])
    yield from _never_faults(member, what)


def _uses(launch: Launch, program: Program) -> tuple[set[str], set[str], bool]:
    """A launch's buffers in the pipeline, the buffers that its program declares as written, and whether it may print."""
    formals = program.bound_buffers
    written = {
        name
        for name, formal in zip(launch.buffers, formals, strict=True)
        if formal.access is not AccessMode.READ
    }
    return set(launch.buffers), written, any(op.name in ("debug_print", "call") for op in program.walk())


def _never_faults(member: _Member, what: str) -> Iterator[Obligation]:
    """Each access of a launch is in bounds, and nothing else of it may be at fault."""
    point = member.point("lane", "lane")
    for op in member.nesting.ops:
        is_counted = op.name == "for" and not _is_positive(bounds(op)[2])
        if (
            op.name in ("trap", "assert", "check_bounds", "call")
            or op.definition.kernel is not None
            or is_counted
        ):
            yield not_seen(what, f"{op.name} may be at fault", [op])
    seen = {access.op for access in member.accesses}
    for op in member.nesting.ops:
        if op.operands and ("buffer" in op.attrs or "buffers" in op.attrs) and op not in seen:
            yield not_seen(what, f"{op.name} may be at fault", [op])
    for access in member.accesses:
        indices, shape = point.indices(access.op), point.group.shape(access.buffer)
        yield Obligation(
            f"{access} is in bounds, so {what}",
            [access.op],
            [point],
            [point.reaches(access.op)],
            is_inside(access, indices, shape),
            shown_at(point, **named("index", indices), **named("length", shape)),
        )


def _is_positive(step: Bound) -> bool:
    return isinstance(step, int) and step > 0


def _covered(join: Join, bodies: BodyMatch) -> Iterator[Obligation]:
    """Obligations that the workgroup itself has written all that it reads of buffers without contents from before the launch."""
    for name in sorted(join.buffers):
        formal = join.program.buffers[join.buffers[name]]
        if formal.access is AccessMode.READ or formal.live_in:
            continue
        accesses = accesses_of(bodies.nesting, join.buffers[name])
        for read in accesses:
            if not read.is_write or read.is_atomic:
                given = partial(bodies.inside, op=read.op)
                yield covered(bodies.nesting, read, [a for a in accesses if a.is_write], given)


def _regridded(join: Join) -> tuple[list[Program], list[Obligation]]:
    """Program of each launch over the grid of the whole, with the obligations that make it right.  Raises Mismatch."""
    assert join.after is not None
    if join.after.grid[1:] != (1, 1) or len(join.regrids) != len(join.launches) or join.halos:
        raise Mismatch("such a grid is not looked at")
    programs, obligations = [], []
    for launch, program, (factor, single) in zip(join.launches, join.programs, join.regrids, strict=True):
        of = Regridded(launch, program, factor, single, join.after.grid[0], join.pipeline.static_lengths)
        expected, claims = expected_program(of)
        programs.append(expected)
        obligations += claims
    return programs, obligations


def _members(
    pipeline: Pipeline, launches: Sequence[Launch], programs: Sequence[Program], grid: Grid | None = None
) -> Iterator[_Member]:
    """`grid`: of all, if not their own."""
    counts = pipeline.static_lengths
    version: dict[str, int] = {}
    for launch, program in zip(launches, programs, strict=True):
        formals = [buffer.name for buffer in program.bound_buffers]
        names = dict(zip(formals, launch.buffers, strict=True))
        nesting = Nesting(program)
        accesses = accesses_of(nesting)
        written = {access.buffer for access in accesses if access.is_write}
        contents = {
            formal: f"{actual}.{version.get(actual, 0)}"
            for formal, actual in names.items()
            if formal not in written
        }
        known: dict[str, int | None] = {}
        for formal in formals:  # one by one: a buffer may be passed for several
            known.update(renamed_lengths(counts, {names[formal]: formal}))
        lengths = {key: length for key, length in known.items() if length is not None}
        own_grid = grid or _grid(launch, counts)
        params = _params(launch, program)
        yield _Member(nesting, accesses, names, own_grid, contents, lengths, params)
        for formal in written & names.keys():
            version[names[formal]] = version.get(names[formal], 0) + 1


def _grid(launch: Launch, counts: Mapping[str, int | None]) -> Grid:
    x, y, z = (_extent(extent, counts) for extent in launch.grid)
    return x, y, z


def _extent(extent: Extent, counts: Mapping[str, int | None]) -> int | None:
    try:
        return evaluate(extent, counts)
    except GridError:
        return None


def _meet_in_one(one: _Member, other: _Member, a: Access, b: Access, has_barrier: bool) -> Obligation:
    p, q = one.point("first", "first"), other.point("second", "second")
    at, to = p.indices(a.op), q.indices(b.op)
    pairs = [(p.group.workgroup_id(axis).term, q.group.workgroup_id(axis).term) for axis in range(3)]
    who, is_by_lane = "workgroup", not (a.is_collective or b.is_collective)
    if not has_barrier:
        who, pairs = "lane", [*pairs, *zip(p.local, q.local, strict=True)]
    # no lane is known to be that of a collective access
    is_one = z3.And([x == y for x, y in pairs]) if has_barrier or is_by_lane else z3.BoolVal(False)
    given = [p.reaches(a.op), q.reaches(b.op), *lengths_in_range(p), *lengths_in_range(q)]
    # out of bounds it would be an error of the program
    for access, member, point, indices in ((a, one, p, at), (b, other, q, to)):
        if access.buffer in member.lengths or len(indices) > 1:
            given.append(is_inside(access, indices, point.group.shape(access.buffer)))
    given += _no_races(one, a, p, q, at) + _no_races(other, b, q, p, to)
    return Obligation(
        f"{a} of @{one.nesting.program.name} and {b} of @{other.nesting.program.name} meet in one {who} only",
        [a.op, b.op],
        [p, q],
        given,
        z3.Or(are_apart(a, at, b, to), is_one),
        {**shown_at(p, **named("first element", at)), **shown_at(q, **named("second element", to))},
        ruled_out=lambda model: [*_races_of(model, one, a, p, q, at), *_races_of(model, other, b, q, p, to)],
    )


def _races_of(
    model: z3.ModelRef, member: _Member, access: Access, here: Point, there: Point, index: Indices
) -> list[z3.BoolRef]:
    """Obligation that no lane of the workgroup `there` races, by the values of a model, with the accesses of the
    launch `here`."""
    lane = [z3.Int(f"race.{axis}") for axis in AXES]
    races = [
        *_races(member, access, here, there, index, lane),
        *_races(member, access, here, there, index, lane, at_first=True),
    ]
    facts = []
    for ids in product(*map(range, member.nesting.program.workgroup)) if races else ():
        at = list(zip(lane, map(z3.IntVal, ids), strict=True))
        race = z3.substitute(z3.Or(races), *at)
        if z3.is_true(model.eval(race, model_completion=True)):
            facts.append(z3.Not(race))
    return facts


def _no_races(member: _Member, access: Access, here: Point, there: Point, index: Indices) -> list[z3.BoolRef]:
    """Obligation that the lane `there` does not access an element that a launch accesses `here`, if it is another lane, nothing
    orders the two, and one of the accesses stores."""
    return [z3.Not(race) for race in _races(member, access, here, there, index, there.local)]


def _races(
    member: _Member,
    access: Access,
    here: Point,
    there: Point,
    index: Indices,
    local: Sequence[z3.ArithRef],
    at_first: bool = False,
) -> Iterator[z3.BoolRef]:
    """Conditions that an access of the launch by the lane `local` of the workgroup `there` is of the element that `access` is of
    `here`; none for an access that depends on unknown values.  In the iterations of `there`, as far as it has any, or
    `at_first`."""
    loops = [op for op in member.nesting.ops if op.name == "for"]
    numbers = [*([] if at_first else there.iterations.values()), *[z3.IntVal(0)] * len(loops)]
    iterations = dict(zip(loops, numbers, strict=False))
    has_barrier = any(op.name == "barrier" for op in member.nesting.ops)
    group = member.group(there.group.name)
    same = [(group.workgroup_id(axis).term, here.group.workgroup_id(axis).term) for axis in range(3)]
    for earlier in member.accesses:
        stores = (earlier.is_write and not earlier.is_atomic) or (access.is_write and not access.is_atomic)
        if stores and earlier.buffer == access.buffer:
            twin = Point(member.nesting, group, f"{there.name} twin", local, iterations, member.contents)
            at, who = twin.indices(earlier.op), list(same)
            if has_barrier:  # which may order lanes of a workgroup
                pass
            elif (
                earlier.is_collective or access.is_collective
            ):  # which may be one access, by all lanes of a subgroup
                who.append((twin.subgroup(), here.subgroup()))
            else:
                who += zip(local, here.local, strict=True)
            differs = z3.Or([one != other for one, other in who])
            race = z3.And(twin.reaches(earlier.op), differs, z3.Not(are_apart(earlier, at, access, index)))
            if not twin.free:
                yield race
