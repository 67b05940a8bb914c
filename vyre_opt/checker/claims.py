"""Claims of certificates about a pass, each checked against the texts before and after it.

same   a program does what it did: equal effects in equal order
tile   the same, and buffers of storage became tiles in workgroup memory: each workgroup reads only what it has written
join   launches of a pipeline became one: their bodies in order, and what they hand on stays within workgroups
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, takewhile, zip_longest

from .apart import in_one_lane, in_one_workgroup
from .cover import Uncovered, check_cover
from .elements import elements
from .reader import Block, Buffer, Module, Op, Pipeline, Program, Stage, walk_ops
from .terms import GROUP, Terms
from .walk import VALUES, Access, Barrier, Branch, Event, Loop, Mismatch, Side, Walk, accesses, touched

__all__ = ["Join", "Tile", "check_join", "check_pipelines", "check_same", "groups_of", "launches_of"]

Groups = tuple[int | None, int | None, int | None]
OPEN: Groups = (None, None, None)


def launches_of(module: Module, program: str) -> Iterator[tuple[Pipeline, Stage]]:
    for pipeline in module.pipelines.values():
        yield from ((pipeline, stage) for stage in pipeline.stages if stage.program == program)


def groups_of(module: Module, program: Program) -> Groups:
    """The workgroups of all launches of a program along each axis, where its text says them; None where it does not."""
    if program.grid is not None:
        return program.grid
    grids = {_grid(stage) for _, stage in launches_of(module, program.name)}
    return grids.pop() if len(grids) == 1 else OPEN


def _grid(stage: Stage) -> Groups:
    x, y, z = (int(text) if text.isdigit() else None for text in (*stage.grid, "1", "1")[:3])
    return x, y, z


# --- one program


def check_same(before: Module, after: Module, name: str, tiles: Sequence[str] = ()) -> dict[str, Tile]:
    """`tiles`: buffers that became tiles; gives where each lies.  Raises Mismatch, Uncovered."""
    old, new = before.programs[name], after.programs[name]
    try:
        return _check_same(before, old, new, tiles)
    except Mismatch:
        one, other = (replace(each, body=_with_merged_branches(each.body)) for each in (old, new))
        try:
            return _check_same(before, one, other, tiles)
        except Mismatch:
            pass
        raise


def _with_merged_branches(block: Block) -> Block:
    """A block with branches of one condition merged, where the former may as well stand at the latter's place."""
    ops = list[Op]()
    for op in block.ops:
        if op.name == "if":
            between = list(takewhile(lambda each: each.name in (*VALUES, "load"), reversed(ops)))
            at = len(ops) - len(between) - 1
            if at >= 0 and _may_merge(ops[at], between, op):
                arms = zip_longest(ops.pop(at).blocks, op.blocks, fillvalue=Block([]))
                blocks = [Block([], [*(o for o in a.ops if o.name != "yield"), *b.ops]) for a, b in arms]
                op = replace(op, blocks=blocks)
        ops.append(op)
    return Block(
        block.args, [replace(op, blocks=[_with_merged_branches(inner) for inner in op.blocks]) for op in ops]
    )


def _may_merge(first: Op, between: Sequence[Op], second: Op) -> bool:
    if first.name != "if" or first.results or first.operands != second.operands:
        return False
    stored = touched(first.blocks)
    return stored is not None and stored.isdisjoint(op.buffer for op in between if op.name == "load")


def _check_same(before: Module, old: Program, new: Program, tiles: Sequence[str]) -> dict[str, Tile]:
    terms = Terms(old.workgroup, OPEN if old.grid is None else old.grid)
    _check_declarations(old, new, tiles)
    own = {buffer: buffer for buffer in new.buffers}
    length_buffers = _kept_for_length(old, new)
    if any(op.buffer in length_buffers and op.name != "len" for op in walk_ops(new.body)):
        raise Mismatch("the storage of a tile is still touched")
    walk = Walk(
        terms,
        [Side(old, {buffer: buffer for buffer in old.buffers})],
        Side(new, {**own, **length_buffers}),
        tiles={buffer: new.buffers[buffer].type for buffer in tiles},
    )
    walk.run()
    check_barriers(walk)
    for buffer in tiles:
        _check_unseen(before, old, old.buffers[buffer])
    return {buffer: _check_tile(walk, old.buffers[buffer], new.buffers[buffer]) for buffer in tiles}


def _has_kept_all(events: Sequence[Event]) -> bool:
    """Whether all barriers are there as before."""
    for event in events:
        inner = event.arms if isinstance(event, Branch) else [event.events] if isinstance(event, Loop) else []
        is_gone = isinstance(event, Barrier) and not event.is_kept
        if is_gone or not all(map(_has_kept_all, inner)):
            return False
    return True


def check_barriers(walk: Walk) -> None:
    """Raises Mismatch unless barriers that went ordered nothing: between two that stayed, outside of loops and branches, each
    element that is written is one lane's."""
    part: list[Event] = []
    for event in [*walk.events[0], Barrier(None, "workgroup")]:
        if not isinstance(event, Barrier) or not event.is_kept or event.scope == "subgroup":
            part.append(event)
            continue
        touching = [] if _has_kept_all(part) else list(accesses(part))
        for one, other in combinations_with_replacement(touching, 2):
            is_shared = one.buffer == other.buffer and (one.writes or other.writes)
            if is_shared and not in_one_lane(walk.terms, one, other):
                raise Mismatch(
                    f"a barrier is not there any more, by which the {one.op.name} in line {one.op.line} of @{one.buffer} "
                    f"and this {other.op.name} may be ordered",
                    other.op,
                )
        part = []


def _kept_for_length(old: Program, new: Program) -> dict[str, str]:
    """Buffers of the new program that stand for one of the old, under another name, by its binding: for their length alone."""
    bindings = {next(iter(b.flags & _bindings(b))): b.name for b in old.bound}
    return {
        buffer.name: bindings[flag]
        for buffer in new.bound
        if buffer.name not in old.buffers
        for flag in _bindings(buffer)
        if flag in bindings
    }


def _bindings(buffer: Buffer) -> frozenset[str]:
    return frozenset(flag for flag in buffer.flags if flag.startswith("binding"))


def _check_declarations(old: Program, new: Program, tiles: Sequence[str]) -> None:
    """Raises Mismatch unless both are called alike, with equal buffers but for tiles and such as nobody touches."""
    if (old.head, old.scalars) != (new.head, new.scalars):
        raise Mismatch("its workgroup, grid, constants or params are declared otherwise")
    gone = [b for b in old.buffers.values() if b.name not in new.buffers]
    if any(b.is_bound or not _is_scratch(b) for b in gone):
        raise Mismatch("it takes other buffers")
    for buffer in new.buffers.values():
        was = old.buffers.get(buffer.name)
        if was is None and any(replace(old.buffers[name], name=buffer.name) == buffer for name in tiles):
            continue  # the storage of a tile, which stays for its length
        if was != buffer and not (was is not None and buffer.name in tiles):
            raise Mismatch(f"@{buffer.name} is declared otherwise")


def _is_scratch(buffer: Buffer) -> bool:
    return not buffer.is_bound and (buffer.access == "workgroup" or buffer.is_transient)


@dataclass(frozen=True)
class Tile:
    """Place of a tile in storage: its first element is `const`, and the multiples of what the workgroup has, by name."""

    const: int
    times: Mapping[str, int]


def _check_tile(walk: Walk, storage: Buffer, tile: Buffer) -> Tile:
    """Raises unless what is in a tile is what the workgroup would find in storage."""
    terms, name = walk.terms, storage.name
    events = walk.events[0]
    touching = [access for access in accesses(events) if access.buffer == name]
    if storage.access != "read_write" or not storage.is_transient or len(storage.shape) != 1:
        raise Mismatch(f"@{name} is seen outside, or has several dimensions")
    count = tile.shape[0]
    if tile.access != "workgroup" or tile.flags or len(tile.shape) != 1 or not isinstance(count, int):
        raise Mismatch(f"@{name} is no tile of workgroup memory")
    if len({terms.types[access.at[0]] for access in touching}) > 1:
        raise Mismatch(f"indices of @{name} are of several types, which wrap in their own ways")
    base = walk.bases.get(name)
    if base is not None and any(terms.varies[atom] & ~GROUP for atom in base.atoms):
        raise Mismatch(f"the place of the tile of @{name} moves while the workgroup runs")
    check_cover(terms, events, name)
    for access, place in walk.places:
        if access.buffer == name:
            turns = [loop.turn for loop in access.loops if loop.turn is not None]
            tile_elements = elements(terms, access, place, turns, is_read=True)
            low, high = terms.bounds[place]
            is_inside = low >= 0 and high + access.width <= count
            if not is_inside and (
                tile_elements is None
                or tile_elements.fixed
                or tile_elements.low < 0
                or tile_elements.high >= count
            ):
                raise Mismatch(f"this {access.op.name} is not known to lie in the tile of {count}", access.op)
    if base is None:
        return Tile(0, {})
    return Tile(base.const, {terms.name(atom): times for atom, times in base.atoms.items()})


def _check_unseen(before: Module, program: Program, buffer: Buffer) -> None:
    """Raises Mismatch if a pipeline lets anyone see what it passes for a buffer."""
    if not buffer.is_bound:
        return
    at = program.bound.index(buffer)
    for pipeline, stage in launches_of(before, program.name):
        name = stage.buffers[at]
        other_stages = [s for s in pipeline.stages if s.program != program.name and _names(s.text, name)]
        twice = [
            s
            for s in pipeline.stages
            if s.program == program.name and (s.buffers[at] != name) and name in s.buffers
        ]
        if not pipeline.buffers[name].is_transient or other_stages or twice or stage.buffers.count(name) > 1:
            raise Mismatch(
                f"pipeline @{pipeline.name} has other uses of @{name}, which @{buffer.name} is there"
            )


def _names(text: str, symbol: str) -> bool:
    return re.search(rf"@{re.escape(symbol)}(?![\w.])", text) is not None


# --- launches that became one


@dataclass(frozen=True, eq=False)
class Join:
    """`at`: the numbers of the launches in their pipeline.  `barriers`: places in the group before which one stands.  `buffers`: the
    pipeline's buffers by the names that the joined program has for them."""

    pipeline: str
    at: tuple[int, ...]
    program: str
    barriers: tuple[int, ...]
    buffers: Mapping[str, str]


def _launches(pipeline: Pipeline) -> list[Stage]:
    return [stage for stage in pipeline.stages if stage.program]


class _Lengths:
    """The extents of a pipeline's buffers; of one that has the size of another, that one's."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def shape(self, name: str) -> tuple[int | str | None, ...]:
        buffer = self.pipeline.buffers[name]
        shape = list(buffer.shape)
        for at, extent in enumerate(shape):
            if extent is None:
                shape[at] = f"len(@{name})" if len(shape) == 1 else f"len(@{name}, {at})"
            elif isinstance(extent, str):
                shape[at] = self.folded(extent)
        return tuple(shape)

    def folded(self, text: str) -> int | str:
        """An expression of lengths, with those that are declared in their place."""

        def replaced(match: re.Match[str]) -> str:
            name, dimension = match[1], int(match[2] or 0)
            if name not in self.pipeline.buffers or self.pipeline.buffers[name].shape[dimension] is None:
                return match[0]
            return str(self.shape(name)[dimension])

        folded = re.sub(r"len\(@([\w.]+)(?:, (\d))?\)", replaced, text)
        return int(folded) if folded.isdigit() else folded


def _sides(
    terms: Terms,
    pipeline: Pipeline,
    programs: Sequence[Program],
    group: Sequence[Stage],
    extents: Mapping[str, tuple[int | str | None, ...]],
) -> list[Side]:
    """The programs of a group's launches, with the pipeline's buffers; workgroup memory is named by number and buffer."""
    sides = []
    for number, (program, stage) in enumerate(zip(programs, group, strict=True)):
        names = {b.name: name for b, name in zip(program.bound, stage.buffers, strict=True)}
        names |= {b.name: f"{number}.{b.name}" for b in program.buffers.values() if not b.is_bound}
        sides.append(Side(program, names, _params(terms, pipeline, program, stage), extents))
    return sides


def _members_with_internal(after: Module, pipeline: str, joins: Sequence[Join], name: str) -> set[int]:
    """Launches of groups that took a buffer for their own: each of these reads only its own writes."""
    programs = {join: after.programs[join.program] for join in joins if join.pipeline == pipeline}
    groups = [j for j, p in programs.items() if name in j.buffers and not p.buffers[j.buffers[name]].is_bound]
    return {number for join in groups for number in join.at}


def check_join(before: Module, after: Module, claim: Join, joins: Sequence[Join] = ()) -> None:
    """`joins`: all of the pass, each of which is checked by itself.  Raises Mismatch, Uncovered."""
    pipeline, joined = before.pipelines[claim.pipeline], after.programs[claim.program]
    launches, lengths = _launches(pipeline), _Lengths(pipeline)
    group = [launches[number] for number in claim.at]
    programs = [before.programs[stage.program] for stage in group]
    grids = {tuple(lengths.folded(text) for text in stage.grid) for stage in group}
    if len(group) < 2 or len(grids) != 1 or any(p.workgroup != joined.workgroup for p in programs):
        raise Mismatch("the launches have other workgroups or grids")
    if any("cluster" in each.head or each.grid not in (None, joined.grid) for each in (*programs, joined)):
        raise Mismatch("the programs run in clusters, or fix other grids")
    terms = Terms(joined.workgroup, joined.grid or _grid(Stage("", 0, "", tuple(map(str, grids.pop())))))
    extents = {name: lengths.shape(name) for name in pipeline.buffers}
    names = {own: shared for shared, own in claim.buffers.items()}
    if (
        len(names) != len(claim.buffers)
        or not set(names) <= set(joined.buffers)
        or not set(names.values()) <= set(pipeline.buffers)
    ):
        raise Mismatch("the claim names buffers that are not there, or one twice")
    scratch = [b for b in joined.buffers.values() if b.name not in names]
    sides = _sides(terms, pipeline, programs, group, extents)
    theirs = [
        (side.names[b.name], b) for side in sides for b in side.program.buffers.values() if not b.is_bound
    ]
    if [(b.type, b.shape, b.access, b.flags) for _, b in theirs] != [
        (b.type, b.shape, b.access, b.flags) for b in scratch
    ]:
        raise Mismatch("the joined program has other workgroup memory than the launches")
    names.update({b.name: shared for b, (shared, _) in zip(scratch, theirs, strict=True)})
    launch = _joined_launch(after, claim)
    for buffer, passed_name in zip(joined.bound, launch.buffers, strict=True):
        if names.get(buffer.name) != passed_name:
            raise Mismatch(f"the launch of @{joined.name} passes another buffer for @{buffer.name}")
    _check_types(joined, names, sides)
    walk = Walk(
        terms, sides, Side(joined, names, _params(terms, pipeline, joined, launch), extents), claim.barriers
    )
    walk.run()
    if not all(map(_has_kept_all, walk.events)):
        raise Mismatch("a barrier of a launch is not there any more")
    _check_meetings(walk, set(pipeline.buffers), claim.barriers)

    for name, own in claim.buffers.items():
        formals = [
            s.program.buffers[formal] for s in sides for formal, shared in s.names.items() if shared == name
        ]
        buffer = joined.buffers[own]
        lacks_input = any(map(_is_given, formals)) and not _is_given(buffer)
        lacks_output = any(map(_is_result, formals)) and not _is_result(buffer)
        is_kept = any(_is_given(each) and _is_result(each) for each in formals)  # what is not stored stays
        if not buffer.is_bound or lacks_output or (lacks_input and is_kept):
            members = _members_with_internal(after, claim.pipeline, joins, name) | set(claim.at)
            _check_internal(pipeline, members, name, buffer)
        if not buffer.is_bound or lacks_output or lacks_input:
            check_cover(terms, _in_order(walk.events, claim.barriers), name)


def _is_given(buffer: Buffer) -> bool:
    return buffer.access == "read" or "live_in" in buffer.flags


def _is_result(buffer: Buffer) -> bool:
    return buffer.access == "write" or "live_out" in buffer.flags


def _check_types(joined: Program, names: Mapping[str, str], sides: Sequence[Side]) -> None:
    types = {names[b.name]: b.type for b in joined.buffers.values()}
    for side in sides:
        for own, shared in side.names.items():
            if types.get(shared, side.program.buffers[own].type) != side.program.buffers[own].type:
                raise Mismatch(f"@{own} has another type in the joined program")


def _joined_launch(after: Module, claim: Join) -> Stage:
    """The launch of the joined program that stands for the group; `check_pipelines` looks at which one it is."""
    bound = [b.name for b in after.programs[claim.program].bound]
    formals = {own: shared for shared, own in claim.buffers.items()}
    launches = [
        stage
        for stage in after.pipelines[claim.pipeline].stages
        if stage.program == claim.program and [formals.get(name) for name in bound] == list(stage.buffers)
    ]
    if len({stage.params for stage in launches}) != 1:
        raise Mismatch(
            f"pipeline @{claim.pipeline} does not launch @{claim.program} so, or with several params"
        )
    return launches[0]


def _params(terms: Terms, pipeline: Pipeline, program: Program, stage: Stage) -> dict[str, int]:
    """Value that a launch gives for each param: a literal, the pipeline's, or the default."""
    arguments, terms_of = dict(stage.params), {}
    for line in program.scalars:
        match = re.fullmatch(r"param @([\w.]+) : (\S+)(?: = (.*))?", line)
        if match is not None:
            name, dtype, default = match.groups()
            text = arguments.get(name, default)
            if text is None:
                raise Mismatch(f"the launch of @{program.name} gives no @{name}")
            is_passed = text.startswith("@")
            terms_of[name] = (
                terms.term(("pipeline", text, dtype), dtype, 0) if is_passed else terms.literal(text, dtype)
            )
    return terms_of


def _in_order(parts: Sequence[Sequence[Event]], barriers: Sequence[int]) -> list[Event]:
    """The events of the joined program."""
    events = list[Event]()
    for number, part in enumerate(parts):
        events += [Barrier(None, "workgroup")] if number in barriers else []
        events += part
    return events


def _check_meetings(walk: Walk, shared: set[str], barriers: Sequence[int]) -> None:
    """Raises Mismatch unless two launches meet in memory within workgroups only, and within lanes where no barrier is between."""
    terms = walk.terms
    for first, second in combinations(range(len(walk.events)), 2):
        has_barrier = any(first < barrier <= second for barrier in barriers)
        pairs = [
            (one, other)
            for one in accesses(walk.events[first])
            for other in accesses(walk.events[second])
            if one.buffer == other.buffer and one.buffer in shared and (one.writes or other.writes)
        ]
        for one, other in pairs:
            in_group = in_one_workgroup(terms, one, other) or _is_covered(walk, first, second, one, other)
            if not in_group or not (has_barrier or in_one_lane(terms, one, other)):
                where = "workgroup" if not in_group else "lane"
                raise Mismatch(
                    f"this {other.op.name} of @{other.buffer} may touch what the {one.op.name} in line {one.op.line} of a launch before "
                    f"touches in another {where}",
                    other.op,
                )


def _is_covered(walk: Walk, first: int, second: int, one: Access, other: Access) -> bool:
    """Whether the workgroup surely stores, in one of the launches, the elements of the access in the other: then no other
    workgroup touches them there, as that would be a race."""
    for stores, reads, access in ((first, second, other), (second, first, one)):
        events = [*walk.events[stores], Barrier(None, "workgroup"), *_only(walk.events[reads], access)]
        try:
            check_cover(walk.terms, events, access.buffer, {access})
        except Uncovered:
            continue
        return True
    return False


def _only(events: Sequence[Event], access: Access) -> list[Event]:
    """The loops and branches around one access, and nothing else."""
    return [access] if any(each is access for each in accesses(events)) else []


def _check_internal(pipeline: Pipeline, inside: Collection[int], name: str, buffer: Buffer) -> None:
    """Raises Mismatch if anyone but the launches with the numbers `inside` sees a buffer that left the pipeline."""
    numbers = {id(stage): number for number, stage in enumerate(_launches(pipeline))}
    other_stages = [s for s in pipeline.stages if numbers.get(id(s)) not in inside and _names(s.text, name)]
    if not pipeline.buffers[name].is_transient or other_stages or not buffer.is_transient:
        raise Mismatch(f"@{name} leaves pipeline @{pipeline.name}, which lets others see it")


# --- pipelines


def check_pipelines(
    before: Module, after: Module, name: str, joins: Sequence[Join], tiles: Mapping[str, Sequence[str]]
) -> None:
    """Raises Mismatch unless a pipeline is the one before with groups of launches in one, and tiles that are passed no more."""
    old, new = before.pipelines[name], after.pipelines[name]
    if old.scalars != new.scalars:
        raise Mismatch(f"pipeline @{name} has other params or constants")
    lengths = _Lengths(old)
    expected = _expected_stages(before, after, name, joins, tiles)
    if len(expected) != len(new.stages):
        raise Mismatch(f"pipeline @{name} has other stages")
    for wanted, stage in zip(expected, new.stages, strict=True):
        if stage.program and stage.program not in after.programs:
            raise Mismatch(f"pipeline @{name} launches @{stage.program}, which is not there")
        if isinstance(wanted[-1], Join):
            bound = (
                [b.name for b in after.programs[stage.program].bound] if stage.program == wanted[1] else []
            )
            names = {own: shared for shared, own in wanted[-1].buffers.items()}
            actual: tuple[object, ...] = (
                stage.depth,
                stage.program,
                _folded_grid(lengths, stage),
                wanted[-1],
            )
            if [names.get(each) for each in bound] != list(stage.buffers):
                raise Mismatch(f"pipeline @{name} passes other buffers to @{stage.program}")
        elif len(wanted) == 2:
            actual = (stage.depth, stage.text)
        else:
            actual = (stage.depth, stage.program, _folded_grid(lengths, stage), stage.buffers, stage.params)
        if actual != wanted:
            raise Mismatch(f"pipeline @{name} has another stage: {stage.text}")
    its_lengths = _Lengths(new)
    for buffer in new.buffers.values():
        was = old.buffers.get(buffer.name)
        shape = lengths.shape(buffer.name) if was else ()
        if was is None or replace(was, shape=shape) != replace(buffer, shape=its_lengths.shape(buffer.name)):
            raise Mismatch(f"@{buffer.name} of pipeline @{name} is declared otherwise")
    gone = [b for b in old.buffers.values() if b.name not in new.buffers]
    if any(not b.is_transient or _names(new.text, b.name) for b in gone):
        raise Mismatch(f"pipeline @{name} lacks buffers that callers see")
    if _visible_buffers(old) != _visible_buffers(new):
        raise Mismatch(f"pipeline @{name} declares the buffers that callers see in another order")


def _expected_stages(
    before: Module, after: Module, name: str, joins: Sequence[Join], tiles: Mapping[str, Sequence[str]]
) -> list[tuple[object, ...]]:
    """The stages that a pipeline must have after the joins, each as a tuple to compare."""
    pipeline = before.pipelines[name]
    groups = {join.at[0]: join for join in joins if join.pipeline == name}
    inner = {number for join in groups.values() for number in join.at[1:]}
    expected, number, lengths = list[tuple[object, ...]](), -1, _Lengths(pipeline)
    for index, stage in enumerate(pipeline.stages):
        number += bool(stage.program)
        if not stage.program:
            expected.append((stage.depth, stage.text))
        elif number in groups:
            join = groups[number]
            run = pipeline.stages[index : index + len(join.at)]
            if list(join.at) != list(range(number, number + len(run))) or any(
                s.depth != stage.depth or not s.program for s in run
            ):
                raise Mismatch(f"launches of pipeline @{name} that became one do not follow each other")
            expected.append((stage.depth, join.program, _folded_grid(lengths, stage), join))
        elif number not in inner:
            expected.append(
                (
                    stage.depth,
                    stage.program,
                    _folded_grid(lengths, stage),
                    _passed(before, after, stage, tiles),
                    stage.params,
                )
            )
    return expected


def _visible_buffers(pipeline: Pipeline) -> list[str]:
    """Buffers that callers see, in the order in which calls pass them."""
    return [buffer.name for buffer in pipeline.buffers.values() if not buffer.is_transient]


def _folded_grid(lengths: _Lengths, stage: Stage) -> tuple[int | str, ...]:
    return tuple(lengths.folded(text) for text in stage.grid)


def _passed(
    before: Module, after: Module, stage: Stage, tiles: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The buffers of a launch, less those that are tiles now."""
    program, now = before.programs[stage.program], after.programs.get(stage.program)
    kept = {flag for b in now.bound for flag in _bindings(b)} if now else set()
    gone = {
        b.name for b in program.bound if b.name in tiles.get(program.name, ()) and not _bindings(b) & kept
    }
    return tuple(name for b, name in zip(program.bound, stage.buffers, strict=True) if b.name not in gone)
