"""Warns of pipeline stages that read a buffer whose contents are undefined.

The contents of a program's transient buffer (`read_write`, neither `live_in` nor `live_out`) are
undefined after the program, since passes remove stores to it.  So a buffer that a pipeline passes
for such a parameter is undefined after the launch, until a stage writes it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from .diagnostics import Diagnostic, Location
from .ops import NAMED_KERNELS
from .pipeline import HostRead, Launch, Pipeline, Repeat, Stage
from .program import AccessMode, Buffer, Module

__all__ = ["check_contents"]


def check_contents(pipeline: Pipeline, module: Module, diagnostics: list[Diagnostic]) -> None:
    """Append a warning for every stage that reads what an earlier launch left undefined, and for
    every such buffer that the pipeline gives back."""
    walk = _Walk(module)
    walk.stages(pipeline.stages)
    for buffer in pipeline.buffers.values():
        if buffer.live_out or buffer.access is AccessMode.WRITE:
            walk.reads(buffer.name, None, "the pipeline gives it back")
    for (name, reader, reason), (launch, formal) in walk.wrong.items():
        message = f"what @{launch.program} leaves in @{name} is undefined, and {reason}"
        help = f"declare @{formal.name} live_out"
        warning = Diagnostic("warning", message, reader or launch.loc, help=help)
        diagnostics.append(warning.note(f"@{formal.name} is declared here", formal.loc))


class _Walk:
    """`undefined`: for each undefined buffer, the launch that left it so and the parameter it was passed for.

    `wrong`: the same pair for each (buffer, location of the reader, what the reader does).
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.undefined: dict[str, tuple[Launch, Buffer]] = {}
        self.wrong: dict[tuple[str, Location | None, str], tuple[Launch, Buffer]] = {}

    def stages(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            if isinstance(stage, Repeat):
                # twice: the second time shows what one iteration leaves to the next
                for _ in range(min(stage.times, 2)):
                    self.stages(stage.stages)
            elif isinstance(stage, HostRead):
                self.reads(stage.buffer, stage.loc)
            elif isinstance(stage, Launch):
                self.launch(stage)
            else:
                kernel = NAMED_KERNELS.get(stage.kernel)
                for name, role in zip(stage.buffers, kernel.roles if kernel else (), strict=False):
                    if role.access is not AccessMode.WRITE:
                        self.reads(name, stage.loc)
                    else:
                        self.undefined.pop(name, None)

    def launch(self, stage: Launch) -> None:
        program = self.module.programs.get(stage.program)
        formals = program.bound_buffers if program is not None else []
        pairs = list(zip(stage.buffers, formals, strict=False))
        # all reads first: a launch reads what stood before it, whatever it then writes or leaves undefined
        for name, formal in pairs:
            if formal.access is AccessMode.READ or formal.live_in:
                self.reads(name, stage.loc)
        for name, formal in pairs:
            if formal.is_transient:
                self.undefined[name] = (stage, formal)
            elif formal.access is not AccessMode.READ:
                self.undefined.pop(name, None)

    def reads(self, name: str, loc: Location | None, who: str = "this stage reads it") -> None:
        if name in self.undefined:
            self.wrong.setdefault((name, loc, who), self.undefined[name])
