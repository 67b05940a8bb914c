"""Rules on what the stages of a pipeline do to its buffers.

The contents of a program's transient buffer (`read_write`, neither `live_in` nor `live_out`) are
undefined after the program, since passes remove stores to it.  So a buffer that a pipeline passes
for such a parameter is undefined after the launch, until a stage writes it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from .diagnostics import Diagnostic, Location
from .fixes import with_flag
from .ops import NAMED_KERNELS
from .pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat, Stage
from .program import AccessMode, Buffer, Module

__all__ = ["check_aliasing", "check_contents"]


def check_aliasing(
    callee: str,
    stage: Launch | KernelStage,
    formals: Sequence[tuple[str, AccessMode | None]],
    diagnostics: list[Diagnostic],
) -> None:
    """Append an error for each buffer passed for two parameters of which one is written.

    Nothing orders the accesses of a stage.  `formals`: name and access of each parameter of `callee`.
    """
    if len(set(stage.buffers)) == len(stage.buffers):
        return
    first: dict[str, tuple[str, AccessMode | None]] = {}
    for name, (formal, access) in zip(stage.buffers, formals, strict=False):
        other, other_access = first.setdefault(name, (formal, access))
        if other != formal and (access, other_access) != (AccessMode.READ, AccessMode.READ):
            does = "read" if AccessMode.READ in (access, other_access) else "write"
            message = f"{callee} would {does} @{name} while it writes it, as its {other} and its {formal}"
            where = stage.loc.find(f"@{name}") if stage.loc else None
            help = f"pass a second buffer in the place of {formal}"
            diagnostics.append(Diagnostic("error", message, where, help=help))


def check_contents(pipeline: Pipeline, module: Module, diagnostics: list[Diagnostic]) -> None:
    """Append a warning for each stage that reads a buffer whose contents an earlier launch left undefined.

    A buffer that the pipeline gives back counts as read at its end.
    """
    tracker = _ContentsTracker(module)
    tracker.visit_stages(pipeline.stages)
    for buffer in pipeline.buffers.values():
        if buffer.live_out or buffer.access is AccessMode.WRITE:
            tracker.read(buffer.name, None, "the pipeline gives it back")
    for (name, reader, reason), (launch, formal) in tracker.violations.items():
        message = f"what @{launch.program} leaves in @{name} is undefined, and {reason}"
        help = f"declare @{formal.name} live_out"
        warning = Diagnostic("warning", message, reader or launch.loc, help=help)
        warning.add_fix(with_flag(formal, "live_out"))
        diagnostics.append(warning.note(f"@{formal.name} is declared here", formal.loc))


class _ContentsTracker:
    """`undefined`: for each undefined buffer, the launch that left it so and the parameter it was passed for.

    `violations`: the same pair for each (buffer, location of the reader, what the reader does).
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.undefined: dict[str, tuple[Launch, Buffer]] = {}
        self.violations: dict[tuple[str, Location | None, str], tuple[Launch, Buffer]] = {}

    def visit_stages(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            if isinstance(stage, Repeat):
                # twice: the second time shows what one iteration leaves to the next
                for _ in range(min(stage.times, 2)):
                    self.visit_stages(stage.stages)
            elif isinstance(stage, HostRead):
                self.read(stage.buffer, stage.loc)
            elif isinstance(stage, Launch):
                self.visit_launch(stage)
            elif isinstance(stage, Fill):
                self.undefined.pop(stage.buffer, None)
            else:
                kernel = NAMED_KERNELS.get(stage.kernel)
                for name, role in zip(stage.buffers, kernel.roles if kernel else (), strict=False):
                    if role.access is not AccessMode.WRITE:
                        self.read(name, stage.loc)
                    else:
                        self.undefined.pop(name, None)

    def visit_launch(self, stage: Launch) -> None:
        program = self.module.programs.get(stage.program)
        formals = program.bound_buffers if program is not None else []
        pairs = list(zip(stage.buffers, formals, strict=False))
        # all reads first: a launch reads what stood before it, whatever it then writes or leaves undefined
        for name, formal in pairs:
            if formal.access is AccessMode.READ or formal.live_in:
                self.read(name, stage.loc)
        for name, formal in pairs:
            if formal.is_transient:
                self.undefined[name] = (stage, formal)
            elif formal.access is not AccessMode.READ:
                self.undefined.pop(name, None)

    def read(self, name: str, loc: Location | None, reason: str = "this stage reads it") -> None:
        if name in self.undefined:
            self.violations.setdefault((name, loc, reason), self.undefined[name])
