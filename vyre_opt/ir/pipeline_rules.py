"""Rules on what the stages of a pipeline do to its buffers.

The contents of a program's transient buffer (`read_write`, neither `live_in` nor `live_out`) are
undefined after the program, since passes remove stores to it.  So a buffer that a pipeline passes
for such a parameter is undefined after the launch, until a stage writes it again.  And so is a buffer that the caller
does not pass, until a stage writes it: a CPU has zeros there, and a GPU whatever was there before.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from ..records import dataclass
from .buffer_uses import NO_USES, BufferUses, buffer_uses
from .diagnostics import Diagnostic, Location, spelling_at, written_name
from .fixes import with_flag, with_stage
from .grids import Extent, fold, length_key
from .ops import NAMED_KERNELS
from .pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from .program import AccessMode, Buffer, Module, Op, Program, Shape
from .warnings.ignored_axes import ignored_axes
from .warnings.program_warnings import accesses_outside

__all__ = [
    "UnwrittenRead",
    "check_contents",
    "lost_results",
    "outside_when_launched",
    "unwritten_reads",
    "unwritten_warning",
]


MOST_SHOWN = 400
"""Characters of a stage in a message, at most."""


def check_contents(pipeline: Pipeline, module: Module, diagnostics: list[Diagnostic]) -> None:
    """Append a warning for each stage that reads a buffer which no stage before it has written, or whose contents an
    earlier launch left undefined.

    A buffer that the pipeline gives back counts as read at its end, where a launch left it undefined.
    """
    tracker = _ContentsTracker(pipeline, module)
    tracker.visit_stages(pipeline.stages)
    for buffer in pipeline.buffers.values():
        if buffer.live_out or buffer.access is AccessMode.WRITE:
            tracker.read_undefined(buffer.name, None, "the pipeline gives it back")
    for (name, reader, reason), (launch, formal) in tracker.violations.items():
        message = f"what @{launch.program} leaves in @{name} is undefined, and {reason}"
        help = f"declare @{formal.name} live_out"
        warning = Diagnostic("warning", message, reader or launch.loc, help=help)
        warning.add_fix(with_flag(formal, "live_out"))
        diagnostics.append(warning.note(f"@{formal.name} is declared here", formal.loc))
    unwritten = tracker.with_writers()
    diagnostics += map(unwritten_warning, unwritten)
    if all(
        diagnostic.severity != "error" for diagnostic in diagnostics
    ):  # else what is lost may follow from that
        diagnostics += lost_results(pipeline, module, unwritten)


def outside_when_launched(pipeline: Pipeline, module: Module) -> list[Diagnostic]:
    """The warnings of accesses that are out of the bounds of what the pipeline passes for a buffer of open size."""
    warnings: dict[Op, Diagnostic] = {}
    lengths = pipeline.static_lengths
    seen: set[tuple[str, tuple[Shape, ...]]] = set()
    for stage in pipeline.walk():
        program = module.programs.get(stage.program) if isinstance(stage, Launch) else None
        if program is None or not isinstance(stage, Launch):
            continue
        formals = program.bound_buffers
        shapes = tuple(
            tuple(
                lengths[length_key(name, dimension)] if extent is None else extent
                for dimension, extent in enumerate(formal.shape)
            )
            for formal, name in zip(formals, stage.buffers, strict=True)
        )
        if (program.name, shapes) in seen or shapes == tuple(formal.shape for formal in formals):
            continue
        seen.add((program.name, shapes))
        passed = {f.name: replace(f, shape=shape) for f, shape in zip(formals, shapes, strict=True)}
        outside_anyway = accesses_outside(program)
        for op, warning in accesses_outside(replace(program, buffers={**program.buffers, **passed})).items():
            if op not in outside_anyway and op not in warnings:
                warnings[op] = warning.note("launched here", stage.loc)
    return list(warnings.values())


def lost_results(pipeline: Pipeline, module: Module, unwritten: Sequence[UnwrittenRead]) -> list[Diagnostic]:
    """The warnings of launches that nobody can see: over an axis that their program ignores, or into buffers of the pipeline's own
    that nothing reads behind them; and of outputs that no stage takes.  `unwritten`: the reads of the pipeline before anything is
    written."""
    warnings: list[Diagnostic] = []
    lengths = pipeline.static_lengths
    seen: set[tuple[str, tuple[Extent, ...]]] = set()
    for stage in pipeline.walk():
        program = module.programs.get(stage.program) if isinstance(stage, Launch) else None
        if program is not None and isinstance(stage, Launch):
            grid = tuple(fold(extent, lengths) for extent in stage.grid)
            if (program.name, grid) not in seen:  # one mistake
                seen.add((program.name, grid))
                warnings += ignored_axes(program, grid, stage.loc)
    observed = {b.name for b in pipeline.buffers.values() if b.live_out or b.access is AccessMode.WRITE}
    observed.update(stage.buffer for stage in pipeline.walk() if isinstance(stage, HostRead))
    readers: dict[str, Stage] = {read.buffer.name: read.stage for read in unwritten}
    if not any(read.exchanged for read in unwritten):
        warnings += _Unread(module, observed, readers).visit(pipeline.stages)
        told = {warning.loc for warning in warnings}
        warnings += _idle_rounds(pipeline.stages, module, told)
    taken = {name for stage in pipeline.walk() for name in _names(stage)}
    for buffer in pipeline.buffers.values():
        if buffer.access is AccessMode.WRITE and buffer.name not in taken:
            spelling = spelling_at(buffer.loc)
            message = f"no stage writes {spelling.buffer(buffer.name)}, which the pipeline gives back"
            help = "pass it to a launch that writes it, or leave it out"
            warnings.append(Diagnostic("warning", message, buffer.loc, help=help))
    return warnings


def _idle_rounds(
    stages: Sequence[Stage], module: Module, told: Collection[Location | None]
) -> Iterator[Diagnostic]:
    """The warnings of repeats all of whose rounds do the same, since no stage reads what it writes, or what one behind it does; `told`:
    places of other warnings, which say more."""
    for repeat in stages:
        if not isinstance(repeat, Repeat):
            continue
        yield from _idle_rounds(repeat.stages, module, told)
        written: set[str] = set()
        for stage in reversed(repeat.stages):
            program = module.programs.get(stage.program) if isinstance(stage, Launch) else None
            if program is None or not isinstance(stage, Launch) or stage.loc in told:
                break
            passed = [*zip(stage.buffers, program.bound_buffers, strict=False)]
            written |= {name for name, formal in passed if formal.access is not AccessMode.READ}
            read = {name for name, formal in passed if formal.access is not AccessMode.WRITE}
            if read & written or any(op.name in ("debug_print", "trap", "assert") for op in program.walk()):
                break
        else:
            if repeat.times > 1 and repeat.stages:
                message = f"all {repeat.times} rounds do the same: no stage reads what a round before it has written"
                help = "pass what a round writes to the next, or leave the repeat out"
                last = repeat.stages[-1]
                if isinstance(last, Launch) and len(repeat.stages) == 1 and len(last.buffers) == 2:
                    spell = spelling_at(last.loc)
                    pairs = [
                        ", ".join(map(spell.buffer, order)) for order in (last.buffers, last.buffers[::-1])
                    ]
                    help = f"launch {spell.buffer(last.program)} ({pairs[0]}) and then ({pairs[1]}) in a round, so that one reads what the other writes; or leave the repeat out"
                yield Diagnostic("warning", message, repeat.loc or last.loc, help=help)


def _names(stage: Stage) -> Sequence[str]:
    """The buffers that a stage takes."""
    if isinstance(stage, Repeat):
        return ()
    return (stage.buffer,) if isinstance(stage, (Fill, HostRead)) else stage.buffers


class _Unread:
    """`needed`: the buffers that the caller sees, or that a stage behind may read.  `readers`: the first stages that read buffers
    which nothing has written before."""

    def __init__(self, module: Module, needed: set[str], readers: dict[str, Stage]) -> None:
        self.module, self.needed = module, needed
        self.readers = readers
        self._uses: dict[str, tuple[BufferUses, bool]] = {}
        """Uses of the buffers of programs, and whether they print or stop a run."""

    def visit(self, stages: Sequence[Stage]) -> list[Diagnostic]:
        """The warnings of stages, from the last to the first."""
        warnings: list[Diagnostic] = []
        for stage in reversed(stages):
            if isinstance(stage, Repeat):
                if (
                    stage.times > 1
                ):  # the first round of the walk shows what a round needs of the one before it
                    self.visit(stage.stages)
                warnings[:0] = self.visit(stage.stages)
            elif isinstance(stage, (Launch, KernelStage)):
                warnings[:0] = self.stage(stage)
        return warnings

    def stage(self, stage: Launch | KernelStage) -> list[Diagnostic]:
        if isinstance(stage, Launch):
            program = self.module.programs.get(stage.program)
            if program is None:
                self.needed.update(stage.buffers)
                return []
            if program.name not in self._uses:
                effects = any(op.name in ("debug_print", "trap", "assert") for op in program.walk())
                self._uses[program.name] = buffer_uses(program), effects
            uses, has_effects = self._uses[program.name]
            formals = program.bound_buffers
            accesses = [formal.access for formal in formals]
            pairs = zip(stage.buffers, formals, strict=False)
            written = [name for name, formal in pairs if formal.name in uses.written]
        else:
            kernel = NAMED_KERNELS.get(stage.kernel)
            accesses = [role.access for role in kernel.roles] if kernel else []
            roles = zip(stage.buffers, accesses, strict=False)
            written, has_effects = [name for name, access in roles if access is not AccessMode.READ], False
        is_lost = written and not has_effects and not self.needed & set(written)
        # that of a lost one, too, so that one mistake is one warning
        taken = zip(stage.buffers, accesses, strict=False)
        self.needed |= {name for name, access in taken if access is not AccessMode.WRITE}
        if not is_lost:
            return []
        spelling = spelling_at(stage.loc)
        names = " and ".join(spelling.buffer(name) for name in written)
        message = f"nothing reads {names} behind this stage, which writes nothing else"
        help = "let the last stage write a buffer that the caller gets, or leave this one out"
        reader = next((self.readers[name].loc for name in written if name in self.readers), None)
        if reader is not None and stage.loc is not None and reader.start < stage.loc.start:
            help = f"move it before line {reader.line}, {_line(reader)}, which reads {names}"
        return [Diagnostic("warning", message, stage.loc, help=help)]


@dataclass(frozen=True, slots=True)
class UnwrittenRead:
    """A stage reads a buffer of the pipeline that nothing can have written before it; `op`: where its program does; `writer`: the
    first stage behind it that writes the buffer; `exchanged`: the text of the stage with two of its buffers exchanged, where that
    leaves nothing unwritten or lost."""

    buffer: Buffer
    stage: Launch | KernelStage | HostRead
    op: Op | None
    writer: Launch | KernelStage | Fill | None = None
    exchanged: str = ""


def unwritten_reads(pipeline: Pipeline, module: Module) -> list[UnwrittenRead]:
    """The first such stage for each buffer."""
    tracker = _ContentsTracker(pipeline, module)
    tracker.visit_stages(pipeline.stages)
    return tracker.with_writers()


def unwritten_warning(read: UnwrittenRead) -> Diagnostic:
    """The warning of a read, with the stage that fills the buffer as its remedy."""
    buffer, loc = read.buffer, read.stage.loc
    spelling = spelling_at(loc)
    written = written_name(buffer.name, buffer.loc)
    shown, fill = spelling.buffer(written), spelling.fill(written)
    if written != buffer.name and buffer.loc is not None:  # two have one name
        shown = f"the {shown} of line {buffer.loc.line}"
    does = "updates" if read.op is not None and "atomic" in read.op.definition.effects else "reads"
    message = f"this stage {does} {shown}, which nothing has written before it: it may hold anything"
    help = f"write {fill} before it"
    if read.writer is not None and read.writer.loc is not None:
        moved = read.writer.loc
        help = f"move line {moved.line}, {_line(moved)}, before it: stages run in the order in which they are written; or {help}"
    if read.exchanged:
        help = f"write {read.exchanged}, which writes {shown}"
    elif buffer.live_out or buffer.access is AccessMode.WRITE:
        help += f", or {spelling.input(buffer.name, 'live_in')} if the caller passes what it holds"
    where = loc.find(f"@{buffer.name}") if loc is not None else None
    warning = Diagnostic("warning", message, where, help=help)
    if read.writer is None and not read.exchanged:
        warning.add_fix(with_stage(loc, fill))
    if read.op is not None:
        warning.note(f"{read.op.name} is here", read.op.loc)
    return warning.note(f"{shown} is declared here", buffer.loc)


def _line(loc: Location) -> str:
    """The text of a stage on one line, as far as it is short."""
    text = " ".join(loc.source.text[loc.start : min(loc.end, loc.start + MOST_SHOWN)].split())
    return f"{text} ..." if loc.end > loc.start + MOST_SHOWN else text


def _with_exchanged(launch: str, a: str, b: str) -> str:
    """`launch @scale grid(4) (@mid, @out)` for `launch @scale grid(4) (@out, @mid)`."""
    head, bracket, arguments = launch.rpartition("(")
    names = re.compile(rf"(?<![\w.$])({re.escape(a)}|{re.escape(b)})(?![\w.$])")
    return head + bracket + names.sub(lambda name: b if name[1] == a else a, arguments)


class _ContentsTracker:
    """`undefined`: for each undefined buffer, the launch that left it so and the parameter it was passed for.

    `violations`: the same pair for each (buffer, location of the reader, what the reader does).
    `unwritten`: the buffers that nothing can have written yet.
    """

    def __init__(self, pipeline: Pipeline, module: Module) -> None:
        self.pipeline, self.module = pipeline, module
        self.undefined: dict[str, tuple[Launch, Buffer]] = {}
        self.violations: dict[tuple[str, Location | None, str], tuple[Launch, Buffer]] = {}
        buffers = pipeline.buffers.values()
        self.unwritten = {b.name for b in buffers if not b.live_in and b.access is not AccessMode.READ}
        self.unwritten_reads: list[UnwrittenRead] = []
        self._uses: dict[str, BufferUses] = {}

    def visit_stages(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            if isinstance(stage, Repeat):
                # twice: the second time shows what one iteration leaves to the next
                for _ in range(min(stage.times, 2)):
                    self.visit_stages(stage.stages)
            elif isinstance(stage, HostRead):
                self.read(stage.buffer, stage)
            elif isinstance(stage, Launch):
                self.visit_launch(stage)
            elif isinstance(stage, Fill):
                self.write(stage.buffer)
            else:
                kernel = NAMED_KERNELS.get(stage.kernel)
                for name, role in zip(stage.buffers, kernel.roles if kernel else (), strict=False):
                    if role.access is not AccessMode.WRITE:
                        self.read(name, stage)
                    if role.access is not AccessMode.READ:
                        self.write(name)

    def visit_launch(self, stage: Launch) -> None:
        program = self.module.programs.get(stage.program)
        formals = program.bound_buffers if program is not None else []
        uses = self.uses(program) if program is not None else NO_USES
        pairs = list(zip(stage.buffers, formals, strict=False))
        # all reads first: a launch reads what stood before it, whatever it then writes or leaves undefined
        for name, formal in pairs:
            first = uses.first_reads.get(formal.name)
            if name in self.unwritten:
                if first is not None:
                    self.read(name, stage, first)
            elif formal.access is AccessMode.READ or formal.live_in:
                self.read(name, stage)
        for name, formal in pairs:
            if formal.name in uses.written or formal.is_transient:
                self.unwritten.discard(name)
            if formal.is_transient:
                self.undefined[name] = (stage, formal)
            elif formal.access is not AccessMode.READ:
                self.undefined.pop(name, None)

    def with_writers(self) -> list[UnwrittenRead]:
        """The first stage that reads each buffer which nothing can have written, with the first one behind it that writes it."""
        numbers = {id(stage): number for number, stage in enumerate(self.pipeline.stages)}
        writers: dict[str, list[tuple[int, Launch | KernelStage | Fill]]] = {}
        if self.unwritten_reads:
            for number, stage in enumerate(self.pipeline.stages):
                if isinstance(stage, (Launch, KernelStage, Fill)):
                    for name in self.written_by(stage):
                        writers.setdefault(name, []).append((number, stage))

        def writer(read: UnwrittenRead) -> Launch | KernelStage | Fill | None:
            at = numbers.get(id(read.stage), len(numbers))  # of a repeat's stage, those before may be behind
            behind = writers.get(read.buffer.name, [])
            number = bisect_right(behind, at, key=itemgetter(0))
            return behind[number][1] if number < len(behind) else None

        reads = [replace(read, writer=writer(read)) for read in self.unwritten_reads]
        if len(reads) == 1 and isinstance(reads[0].stage, Launch):
            reads = [replace(reads[0], exchanged=self.exchanged(reads[0].stage, reads[0].buffer))]
        return reads

    def exchanged(self, stage: Launch, read: Buffer) -> str:
        """The text of a launch with the buffer that it reads exchanged with another one of its type, after which nothing is unwritten or
        lost; "" where none does that."""
        program, buffers, written = (
            self.module.programs.get(stage.program),
            stage.buffers,
            self.pipeline.buffers,
        )
        if program is None or stage.loc is None or read.access is AccessMode.READ:
            return ""
        for name in buffers:
            other = written.get(name)
            if (
                other is None
                or other is read
                or (other.dtype, other.dimensions) != (read.dtype, read.dimensions)
            ):
                continue
            order = {read.name: name, name: read.name}
            try:
                stage.buffers = tuple(order.get(each, each) for each in buffers)
                tracker = _ContentsTracker(self.pipeline, self.module)
                tracker.visit_stages(self.pipeline.stages)
                if not (
                    tracker.unwritten_reads
                    or tracker.violations
                    or lost_results(self.pipeline, self.module, ())
                ):
                    return _with_exchanged(_line(stage.loc), read.name, name)
            finally:
                stage.buffers = buffers
        return ""

    def written_by(self, stage: Launch | KernelStage | Fill) -> set[str]:
        """The buffers that a stage may write."""
        if isinstance(stage, Fill):
            return {stage.buffer}
        if isinstance(stage, KernelStage):
            kernel = NAMED_KERNELS.get(stage.kernel)
            roles = zip(stage.buffers, kernel.roles if kernel else (), strict=False)
            return {name for name, role in roles if role.access is not AccessMode.READ}
        program = self.module.programs.get(stage.program)
        if program is None:
            return set()
        pairs = zip(stage.buffers, program.bound_buffers, strict=False)
        return {name for name, formal in pairs if formal.name in self.uses(program).written}

    def uses(self, program: Program) -> BufferUses:
        if program.name not in self._uses:
            self._uses[program.name] = buffer_uses(program)
        return self._uses[program.name]

    def write(self, name: str) -> None:
        self.undefined.pop(name, None)
        self.unwritten.discard(name)

    def read(self, name: str, stage: Launch | KernelStage | HostRead, op: Op | None = None) -> None:
        if name not in self.unwritten:
            self.read_undefined(name, stage.loc, "this stage reads it")
        elif name in self.pipeline.buffers:
            self.unwritten.discard(name)  # one mistake
            self.unwritten_reads.append(UnwrittenRead(self.pipeline.buffers[name], stage, op))

    def read_undefined(self, name: str, loc: Location | None, reason: str) -> None:
        if name in self.undefined:
            self.violations.setdefault((name, loc, reason), self.undefined[name])
