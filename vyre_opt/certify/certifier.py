"""Decisions of passes and of the lowering, each as the obligations that it has to meet.

A pass says what it claims in the certificate of its remark:

    claim: tile       program, buffer                  a hand-off that became a tile of each workgroup
    claim: barrier    program, op                      a barrier that went
    claim: join       pipeline, at, program, barriers, buffers, halo      launches that became one; their numbers in
                                                       the pipeline, and the program's names for its buffers; `order`: the
                                                       numbers of one, of one that it passes, and of that which never faults
    claim: vector     program, lanes_of                accesses that became one; the ops of each element
    claim: forward    program, op, source              a load of what `source` has, or a store of it once more
    claim: overwrite  program, op, by                  a store that `by` overwrites
    claim: coarsen    pipeline, at, program, into, by, by_y, tile, blocks     a launch, by its number, of which an invocation does
                                                       the work of several; the programs before and after
    claim: privatize  pipeline, at, program, into          a launch whose workgroups count for themselves, and take turns
    claim: merge      program, op, parts               an `if` that earlier ones of its condition went into
    claim: batch      program, loops                       a loop that loads for several iterations at once
    claim: keep_loads program, loops, by                   loops that are written out, as `by` iterations at most
    claim: hoist_loads     program, loops                  a loop whose loads stand before it
    claim: lower_slices    program, carried                slices that became what invocations do; for each loop the layouts
                                                       of the slices that it carries

`op`, `source`, `by`, `parts`, `loops` and `lanes_of` are numbers of ops, in the order of the program's text before the pass; but `by`,
`by_y`, `tile` and `blocks` of a coarse launch are what `NeighbourBlock` has, and `by` of loops is a count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache, partial
from itertools import combinations
from typing import Any, Protocol

import z3

from ..ir.diagnostics import Location
from ..ir.pipeline import KernelStage, Launch, Pipeline
from ..ir.program import Module, Op, Program
from ..records import dataclass
from ..rewriting.cloning import copy_module
from ..rewriting.demanded_extents import declare_demands
from ..syntax.printer import print_program
from .barriers import removed_barrier
from .bodies import Halo, Special
from .coarse_ids import NeighbourBlock
from .coarsened import coarsened
from .forwarding import forwarded, overwritten
from .frame_condition import is_rest_unchanged, replaced, vanished, vectorized
from .in_bounds import in_bounds, unguarded
from .joins import Join, joined
from .lengths import LengthTerms
from .lowered_slices import lowered_slices
from .merged_ifs import merged_ifs
from .obligations import REFUTED, Answer, Obligation, not_seen, prove, smt2
from .pipelines import Changes, difference, lost_demands, who_sees_argument
from .privatized import privatized
from .relaunched import Relaunched
from .rewritten_loops import rewritten_loops
from .tiles import tile
from .vectors import vector

__all__ = ["CERTIFIED", "Certifier", "Decision", "Found", "Search", "lowering_decisions", "unsearched"]

Facts = Mapping[str, Any]
"""A certificate."""


class Named(Protocol):
    """A pass, of which the certifier trusts only the name."""

    @property
    def name(self) -> str: ...


class CertifiedRemark(Protocol):
    """Remark of a pass on a decision, with its certificate."""

    @property
    def kind(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def loc(self) -> Location | None: ...

    @property
    def certificate(self) -> Facts: ...


class Found(Protocol):
    """A call on which two modules differ: `what` differs, and the values by name."""

    @property
    def what(self) -> str: ...

    @property
    def witness(self) -> Mapping[str, int | float | str]: ...


Search = Callable[[Module, Module], Found | None]
"""Looks for a call on which the module after a pass does not do what the module before does; None if it finds none.

What it finds refutes, so it must know of nothing that passes believe; that it finds none proves nothing.
"""


def unsearched(before: Module, after: Module) -> Found | None:
    """No search: unproved obligations stay unknown, and other passes are not tested."""
    return None


@dataclass
class Decision:
    """`obligations`: what has to hold; None if nothing here knows such claims.  `by`: who decided.  `search`: for a
    counterexample, where that is not proved."""

    by: str
    what: str
    loc: Location | None
    obligations: list[Obligation] | None
    search: Callable[[], Found | None] = lambda: None
    answers: list[Answer] = field(default_factory=list)

    @property
    def status(self) -> str:
        """proved, refuted or unknown."""
        statuses = {answer.status for answer in self.answers}
        if "refuted" in statuses:
            return "refuted"
        return "proved" if self.obligations is not None and statuses <= {"proved"} else "unknown"

    def certify(self, seconds: float) -> None:
        """Ask z3, `seconds` at most for each obligation."""
        self.answers = [prove(obligation, seconds) for obligation in self.obligations or ()]
        found = self.search() if self.status == "unknown" else None
        if found is not None:
            self.answers.append(_refuted(found))

    def smt2(self) -> str:
        return "".join(map(smt2, self.obligations or ()))


def _refuted(found: Found) -> Answer:
    what = Obligation("the same call gives the same", [], [], [], z3.BoolVal(False))
    return Answer(what, REFUTED, 0.0, dict(found.witness), found.what)


class Certifier:
    """Observes a pass manager and collects the `decisions` of its passes.

    `search`: searches for calls on which a pass changes the results of a module.  A pass without proofs is only
    tried so, see `tried`.
    """

    def __init__(self, search: Search = unsearched) -> None:
        self.decisions: list[Decision] = []
        self._search = search
        self._before: Module | None = None
        self._steps: list[tuple[str, Module, Module]] = []

    def clear(self) -> None:
        """Begin with another text."""
        self.decisions.clear()
        self._steps.clear()

    def before(self, running: Named, module: Module) -> None:
        self._before = copy_module(module)

    def after(
        self, running: Named, module: Module, changed: bool, remarks: Sequence[CertifiedRemark]
    ) -> None:
        """Add a decision for each remark of the pass that something was applied."""
        assert self._before is not None
        applied = [r for r in remarks if r.kind == "applied" and "claim" in r.certificate]
        certificates = [remark.certificate for remark in applied]
        # obligations are about the program as it is now, and asked when later passes have changed it
        before, module, declared = self._before, copy_module(module), copy_module(self._before)
        declare_demands(declared)  # as passes do that take buffers out of launches
        self._steps.append((running.name, before, module))
        try:
            decisions = [
                *_claimed(declared, module, running, applied),
                *_rests(declared, module, running, certificates),
                *(_elsewhere(declared, module, running, certificates) if running.name in CERTIFIED else ()),
                *_lost(before, module, running),
            ]
        except (LookupError, ValueError) as error:
            what = "the certificates are about the texts before and after"
            decisions = [
                Decision(
                    running.name, what, None, [not_seen(what, f"they name what is not there: {error}", [])]
                )
            ]
        search = lru_cache(partial(self._search, before, module))
        for decision in decisions:
            decision.search = search
        self.decisions += decisions

    def tried(self) -> Iterator[Decision]:
        """A refuted decision for each pass that changes what the module does, by a call that was found; none where none
        is found, which proves nothing.  The passes are tried together at first, since mostly nothing is found.

        A named kernel may be computed in several ways, so its expansion is compared.  Where another decision
        about a pass is known not to be proved, that is enough.
        """
        steps = [step for step in self._steps if not _has_kernels(step[1])]
        whole = self._search(steps[0][1], steps[-1][2]) if steps else None
        if whole is None:
            return
        failed = {
            decision.by for decision in self.decisions if decision.answers and decision.status != "proved"
        }
        found = [(by, self._search(before, after)) for by, before, after in steps if by not in failed]
        refuted = [(by, one) for by, one in found if one is not None]
        for by, one in refuted or ([] if failed else [("passes", whole)]):
            what = "the module does something else"
            yield Decision(by, what, None, [not_seen(what, "a call was found", [])], partial(_same, one))


def _same(found: Found) -> Found:
    return found


def _has_kernels(module: Module) -> bool:
    is_stage = any(
        isinstance(s, KernelStage) for pipeline in module.pipelines.values() for s in pipeline.walk()
    )
    ops = (op for program in module.programs.values() for op in program.walk())
    return is_stage or any(op.definition.kernel is not None for op in ops)


@lru_cache(maxsize=2)
def _ops(program: Program) -> Sequence[Op]:
    """The ops of a program before a pass, by their numbers."""
    return list(program.walk())


def _claimed(
    before: Module, after: Module, running: Named, applied: Sequence[CertifiedRemark]
) -> Iterator[Decision]:
    """A decision for each remark that something was applied."""
    certificates = [remark.certificate for remark in applied]
    for remark in applied:
        rule = _CLAIMS.get(remark.certificate["claim"])
        claims = rule(before, after, remark.certificate, certificates) if rule is not None else None
        obligations = None if claims is None else list(claims)
        yield Decision(running.name, remark.message, remark.loc, obligations)


def _rests(
    before: Module, after: Module, running: Named, certificates: Sequence[Facts]
) -> Iterator[Decision]:
    """A decision for each program that a pass changed, as it says: that nothing else changed."""
    by_program = _launches_by_program(before)
    yield from _rests_of_loops(before, after, running, certificates)
    in_place = [facts for facts in certificates if facts["claim"] in _SPECIAL]
    for name in dict.fromkeys(facts["program"] for facts in in_place):
        program = before.programs[name]
        ops = _ops(program)
        special: dict[Op, Special] = {}
        moved: list[str] = []
        changes = [facts for facts in in_place if facts["program"] == name]
        for facts in changes:
            special.update(_SPECIAL[facts["claim"]](facts, ops))
            moved += [facts["buffer"]] if facts["claim"] == "tile" else []
        rest = is_rest_unchanged(program, after.programs[name], special, moved, by_program[name])
        yield Decision(
            running.name, f"@{name} changes {_counted(len(changes), 'place')}", program.loc, [rest]
        )


def _rests_of_loops(
    before: Module, after: Module, running: Named, certificates: Sequence[Facts]
) -> Iterator[Decision]:
    """A decision for each program whose loops changed, as the pass says: that all other ops have the same effects."""
    named: dict[str, set[int]] = defaultdict(set)
    for facts in certificates:
        if facts["claim"] in _LOOPS:
            named[facts["program"]].update(facts["loops"])
    for name, numbers in named.items():
        program = before.programs[name]
        loops = {_ops(program)[number] for number in numbers}
        rest = [each for loop, each in _about_loops(before, after, name, certificates) if loop not in loops]
        yield Decision(running.name, f"@{name} changes {_counted(len(loops), 'loop')}", program.loc, rest)


CERTIFIED = (
    "launch_fusion",
    "decode_scan_fuse",
    "store_forward",
    "barrier_elim",
    "vectorize_access",
    "coarsen",
    "privatize",
    "batch_loads",
    "keep_loads",
    "lower_slices",
)
"""Passes that change nothing without a certificate."""


def _elsewhere(
    before: Module, after: Module, running: Named, certificates: Sequence[Facts]
) -> Iterator[Decision]:
    """A decision for each program and pipeline that is not as it was though the pass says nothing of it."""
    if _functions(before) != _functions(after):
        what = "functions change without a certificate"
        yield Decision(running.name, what, None, [not_seen(what, "they are other ones", [])])
    by_program = _launches_by_program(before)
    named = {
        facts["program"] for facts in certificates if facts["claim"] in (*_SPECIAL, *_LOOPS, "lower_slices")
    }
    for name, program in before.programs.items():
        if name in after.programs and name not in named:
            rest = is_rest_unchanged(program, after.programs[name], {}, (), by_program[name])
            if z3.is_false(rest.claim):
                yield Decision(running.name, f"@{name} changes without a certificate", program.loc, [rest])
    for name, how in _other_programs(before, after, certificates, by_program):
        what = f"@{name} {how} without a certificate"
        yield Decision(running.name, what, None, [not_seen(what, "no certificate names it", [])])
    dropped: dict[str, list[int]] = {}
    for facts in certificates:
        if facts["claim"] == "tile":
            program = before.programs[facts["program"]]
            buffer = program.buffers[facts["buffer"]]
            taken = [other.binding for other in after.programs[program.name].bound_buffers]
            if buffer.binding is not None and buffer.binding not in taken:  # it may stay for its length
                dropped.setdefault(program.name, []).append(program.bound_buffers.index(buffer))
    for name, pipeline in before.pipelines.items():
        launches, groups = _launches(pipeline), _groups(certificates, pipeline)
        joined = [
            id(launches[number]) for number in (*_relaunches(certificates, pipeline), *(g[0] for g in groups))
        ]
        absorbed = [id(launches[number]) for group in groups for number in group[1:]]
        differs = difference(pipeline, after.pipelines[name], Changes(joined, absorbed, dropped))
        if differs is not None:
            what = f"pipeline @{name} changes without a certificate"
            yield Decision(running.name, what, pipeline.loc, [not_seen(what, differs, [])])


def _other_programs(
    before: Module, after: Module, certificates: Sequence[Facts], launched: Container[str]
) -> Iterator[tuple[str, str]]:
    """Programs that exist only before or only after, with their fate; without programs that certificates name, and programs
    that lost their last launch."""
    named = {facts[key] for facts in certificates for key in ("program", "into") if key in facts}
    yield from ((name, "appears") for name in after.programs if name not in (before.programs.keys() | named))
    for name in before.programs.keys() - after.programs.keys():
        if name not in launched:
            yield name, "disappears"


def _lost(before: Module, after: Module, running: Named) -> Iterator[Decision]:
    """A decision for each extent that a launch demanded, and that nothing does any more."""
    for pipeline, lost in lost_demands(before, after):
        what = f"the launches of pipeline @{pipeline.name} demand what they did"
        yield Decision(running.name, what, pipeline.loc, [not_seen(what, lost, [])])


def _functions(module: Module) -> str:
    functions = Module()
    for func in module.funcs.values():
        functions.add(func)
    return print_program(functions)


def _launches_by_program(module: Module) -> Mapping[str, list[tuple[LengthTerms, Launch]]]:
    """The launches of each program, with the lengths of their pipelines."""
    launches: dict[str, list[tuple[LengthTerms, Launch]]] = defaultdict(list)
    for pipeline in module.pipelines.values():
        terms = LengthTerms(pipeline.buffers)
        for launch in _launches(pipeline):
            launches[launch.program].append((terms, launch))
    return launches


def _launches(pipeline: Pipeline) -> list[Launch]:
    return [stage for stage in pipeline.walk() if isinstance(stage, Launch)]


def _groups(certificates: Sequence[Facts], pipeline: Pipeline) -> list[Sequence[int]]:
    """The launches that became one, by their numbers, for each such decision about a pipeline."""
    joins = (facts for facts in certificates if facts["claim"] == "join")
    return [facts["at"] for facts in joins if facts["pipeline"] == pipeline.name]


def _relaunches(certificates: Sequence[Facts], pipeline: Pipeline) -> list[int]:
    """The numbers of the launches that got another program."""
    return [
        facts["at"]
        for facts in certificates
        if facts["claim"] in _RELAUNCHED and facts["pipeline"] == pipeline.name
    ]


def _counted(number: int, what: str) -> str:
    return f"in {number} {what}" + ("s" if number != 1 else "")


_LOOPS = ("batch", "keep_loads", "hoist_loads")
"""Claims about loops that load at other places."""

_RELAUNCHED = ("coarsen", "privatize")
"""Claims about a launch that gets another program over another grid."""


_SPECIAL: dict[str, Callable[[Facts, Sequence[Op]], Mapping[Op, Special]]] = {
    "tile": lambda facts, ops: {},
    "barrier": lambda facts, ops: {ops[facts["op"]]: vanished},
    "overwrite": lambda facts, ops: {ops[facts["op"]]: vanished},
    "forward": lambda facts, ops: {ops[facts["op"]]: replaced(ops[facts["source"]])},
    "vector": lambda facts, ops: vectorized([[ops[number] for number in same] for same in facts["lanes_of"]]),
}
"""Counterparts of ops that are not the next op, by claim about a program, from its ops in order."""


def _removed(program: Program, certificates: Sequence[Facts]) -> dict[Op, Op | None]:
    """The accesses that go, each with the one that has its value, None for one that is overwritten."""
    ops = _ops(program)
    return {
        ops[facts["op"]]: ops[facts["source"]] if "source" in facts else None
        for facts in certificates
        if facts["claim"] in ("forward", "overwrite") and facts["program"] == program.name
    }


def lowering_decisions(
    program: Program, proven: Iterable[Op], without_guard: Mapping[Op, int | None]
) -> list[Decision]:
    """A decision for each access that is not checked, and for each division and shift without a guard, by the lanes
    that compute it, see `unguarded`."""
    obligations = [*in_bounds(program, proven), *unguarded(program, without_guard)]
    return [
        Decision("lowering", f"@{program.name}: {each.what}", each.ops[0].loc, [each]) for each in obligations
    ]


def _tile(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    name = facts["program"]
    seen = who_sees_argument(before, before.programs[name], facts["buffer"])
    if seen is not None:
        yield not_seen(f"nobody else sees @{facts['buffer']}", seen, [])
    yield from tile(before.programs[name], after.programs[name], facts["buffer"])


def _barrier(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    """A barrier may not rest on another one that goes too."""
    program = before.programs[facts["program"]]
    ops = _ops(program)
    removed = [
        ops[other["op"]]
        for other in others
        if other["claim"] == "barrier" and other["program"] == facts["program"]
    ]
    return removed_barrier(program, ops[facts["op"]], removed)


def _vector(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    program = before.programs[facts["program"]]
    ops = _ops(program)
    return vector(program, [[ops[number] for number in same] for same in facts["lanes_of"]])


def _join(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    pipeline, now = (module.pipelines[facts["pipeline"]] for module in (before, after))
    old, new = map(_launches, (pipeline, now))
    groups = _groups(others, pipeline)
    gone = {number for group in groups for number in group[1:]}
    index = facts["at"][0] - sum(number < facts["at"][0] for number in gone)
    changed = [[old[number] for number in each] for each in facts.get("order", ())]
    return joined(
        Join(
            before,
            pipeline,
            [old[number] for number in facts["at"]],
            after.programs[facts["program"]],
            new[index] if index < len(new) else None,
            frozenset(pipeline.buffers.keys() - now.buffers.keys()),
            facts["barriers"],
            facts["buffers"],
            [_halo(each) for each in facts["halo"]],
            [old[number] for group in groups for number in group],
            [(each["factor"], each["single"]) for each in facts.get("regrid", ())],
            {id(old[number]): old[group[0]] for group in groups for number in group},
            {(id(moved), id(other)): sound for moved, other, sound in changed},
        )
    )


def _forward(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    program = before.programs[facts["program"]]
    ops = _ops(program)
    yield from forwarded(program, ops[facts["op"]], ops[facts["source"]], _removed(program, others))


def _overwrite(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    program = before.programs[facts["program"]]
    ops = _ops(program)
    yield from overwritten(program, ops[facts["op"]], ops[facts["by"]], _removed(program, others))


def _merge(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    program = before.programs[facts["program"]]
    ops = _ops(program)
    together = {
        (ops[part], ops[into])
        for other in others
        if other["claim"] == "merge" and other["program"] == program.name
        for part, into in combinations([*other["parts"], other["op"]], 2)
    }
    return merged_ifs(program, [ops[number] for number in facts["parts"]], ops[facts["op"]], together)


def _relaunched(before: Module, after: Module, facts: Facts) -> Relaunched:
    pipeline, now = (module.pipelines[facts["pipeline"]] for module in (before, after))
    was = _launches(pipeline)[facts["at"]]
    launches = _launches(now)[facts["at"] : facts["at"] + 1]
    return Relaunched(
        now,
        was,
        before.programs[was.program],
        launches[0] if launches else None,
        after.programs[facts["into"]],
    )


def _coarsen(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    tile = None if facts["tile"] is None else (facts["tile"][0], facts["tile"][1])
    block = NeighbourBlock(facts["by"], facts["by_y"], tile, facts["blocks"])
    return coarsened(_relaunched(before, after, facts), block)


def _privatize(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    return privatized(_relaunched(before, after, facts))


def _loops(before: Module, after: Module, facts: Facts, others: Sequence[Facts]) -> Iterable[Obligation]:
    """Obligations about these loops, and about no loop."""
    program = before.programs[facts["program"]]
    loops = [None, *(_ops(program)[number] for number in facts["loops"])]
    return [each for loop, each in _about_loops(before, after, program.name, others) if loop in loops]


def _about_loops(
    before: Module, after: Module, name: str, certificates: Sequence[Facts]
) -> Sequence[tuple[Op | None, Obligation]]:
    """Obligations of a program whose loops load elsewhere, each with its loop."""
    counts = tuple(
        (number, facts["by"])
        for facts in certificates
        if facts["claim"] == "keep_loads" and facts["program"] == name
        for number in facts["loops"]
    )
    return _side_by_side(before.programs[name], after.programs[name], counts)


@lru_cache(maxsize=2)
def _side_by_side(
    before: Program, after: Program, counts: tuple[tuple[int, int], ...]
) -> Sequence[tuple[Op | None, Obligation]]:
    ops = _ops(before)
    return rewritten_loops(before, after, {ops[number]: count for number, count in counts})


def _lower_slices(
    before: Module, after: Module, facts: Facts, others: Sequence[Facts]
) -> Iterable[Obligation]:
    program = before.programs[facts["program"]]
    layouts = {_ops(program)[number]: [tuple(each) for each in held] for number, held in facts["carried"]}
    return lowered_slices(program, after.programs[program.name], layouts)


def _halo(facts: Facts) -> Halo:
    return Halo(facts["buffer"], facts["producer"], facts["stride"], low=facts["tile"][0])


_CLAIMS: dict[str, Callable[[Module, Module, Facts, Sequence[Facts]], Iterable[Obligation]]] = {
    "tile": _tile,
    "join": _join,
    "barrier": _barrier,
    "vector": _vector,
    "forward": _forward,
    "overwrite": _overwrite,
    "merge": _merge,
    "coarsen": _coarsen,
    "privatize": _privatize,
    "lower_slices": _lower_slices,
    **dict.fromkeys(_LOOPS, _loops),
}
