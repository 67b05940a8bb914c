"""Launches of a text that get an equivalent program over another grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..analysis.refusal import Refusal
from ..fusion.group_count import GroupCount
from ..fusion.remark_sink import RemarkSink
from ..ir.grids import Extent, Grid, fold, lengths_by_dimension, show_extent
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Dim3, Module, Program, Shape
from ..ir.rewrite import fresh_name
from ..records import dataclass
from .launch_forms import LaunchSite

__all__ = ["NewForm", "TextLaunch", "launched_programs", "launches", "remove_unlaunched", "rewrite_launches"]


@dataclass(frozen=True, slots=True)
class TextLaunch:
    """Launch number `number` of a pipeline, from 0.  `extents`: its grid, with known lengths put in."""

    pipeline: Pipeline
    launch: Launch
    number: int
    program: Program
    extents: tuple[Extent, Extent, Extent]

    @property
    def grid(self) -> Dim3 | Refusal:
        """The grid if it consists of numbers; otherwise a refusal."""
        x, y, z = self.extents
        if isinstance(x, int) and isinstance(y, int) and isinstance(z, int):
            return x, y, z
        return Refusal(
            "open", f"its grid, ({', '.join(map(show_extent, self.extents))}), is known when it is called"
        )

    def site(self, processors: int, on_gpu: bool) -> LaunchSite:
        names = dict(zip((b.name for b in self.program.bound_buffers), self.launch.buffers, strict=True))
        shapes: dict[str, Shape] = {
            name: self.pipeline.buffers[actual].shape for name, actual in names.items()
        }
        formals = {actual: name for name, actual in names.items()}
        x, y = (GroupCount(extent, formals, axis) for extent, axis in zip(self.extents, "xy", strict=False))
        return LaunchSite(self.program, shapes, (x, y), processors, on_gpu)


def launches(module: Module) -> Iterator[TextLaunch]:
    """All launches of a module, in the order of the text."""
    for pipeline in module.pipelines.values():
        lengths = {
            key: length
            for name, buffer in pipeline.buffers.items()
            for key, length in {name: buffer.count, **lengths_by_dimension(name, buffer.shape)}.items()
        }
        stages = (stage for stage in pipeline.walk() if isinstance(stage, Launch))
        for number, launch in enumerate(stages):
            x, y, z = (fold(extent, lengths) for extent in launch.grid)
            yield TextLaunch(pipeline, launch, number, module.programs[launch.program], (x, y, z))


@dataclass(frozen=True, slots=True)
class NewForm:
    """New program and grid of a launch.  `suffix`: suffix of the program's name.

    `message`: text of the remark, with `{old}` and `{new}` for the programs.  `facts`: facts of its certificate.
    """

    program: Program
    suffix: str
    grid: Grid
    message: str
    facts: Mapping[str, object]


def rewrite_launches(
    module: Module, sink: RemarkSink, stays: str, choose: Callable[[TextLaunch], NewForm | Refusal | None]
) -> int:
    """Give launches the forms that `choose` returns, and remove programs that lost their last launch; return how many changed.

    `stays`: verb of the remark on a refused launch.  A launch for which `choose` returns None gets no remark.
    """
    programs, changes = launched_programs(module), 0
    for text in launches(module):
        form, launch, pipeline = choose(text), text.launch, text.pipeline.name
        if isinstance(form, Refusal):
            message = f"launch {text.number} of @{pipeline} {stays}: {form.message}"
            sink.remark(
                "refused",
                message,
                form.loc or launch.loc,
                pipeline=pipeline,
                reason=form.reason,
                **form.facts,
            )
        elif form is not None:
            changes += 1
            program = form.program
            if module.programs.get(program.name) is not program:
                program.name = fresh_name(f"{program.name}.{form.suffix}", module.programs)
                module.add_before_pipelines(program)
            launch.program, launch.grid = program.name, form.grid
            names = {"program": text.program.name, "into": program.name}
            message = form.message.format(old=f"@{names['program']}", new=f"@{names['into']}")
            sink.remark(
                "applied", message, launch.loc, pipeline=pipeline, at=text.number, **names, **form.facts
            )
    remove_unlaunched(module, programs)
    return changes


def launched_programs(module: Module) -> set[str]:
    """Names of the programs that pipelines launch."""
    return {each.launch.program for each in launches(module)}


def remove_unlaunched(module: Module, launched_before: set[str]) -> int:
    """Remove the programs that lost their last launch; return how many.

    A program that is not in `launched_before` stays: it may be an entry point of its own."""
    dead = sorted(launched_before - launched_programs(module))
    for name in dead:
        module.remove(module.programs[name])
    return len(dead)
