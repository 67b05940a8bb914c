"""Plans of functions for a target, as parts of a pack: a variant for each class of shapes, and the programs that these launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from ..driver.pipeline import PipelineExecutable, equal_lengths
from ..driver.pipeline_plan import make_plan
from ..driver.program import ProgramExecutable
from ..execution.plans.steps import LaunchStep, steps_of
from ..execution.plans.zeroed import forms_of_text
from ..fusion.group_count import groups_param
from ..ir.grids import length_key
from ..ir.pipeline import Fill, KernelStage, Launch
from ..ir.program import Buffer, Module, Program
from ..ir.shapes import has_slices
from ..kernels.call import KernelCall
from ..pack_files.format import Part
from ..packs.array_functions import encoded_call
from ..packs.ir_data import Encoder, Unpackable
from ..passes.manager import PassManager
from ..rewriting.cloning import copy_module
from ..scheduling.wide_workgroups import of_whole_subgroups
from ..slices.row_lengths import Bounds
from .array_functions import planned_call
from .artifacts import Code

__all__ = ["PlanWriter"]

Row = dict[str, Any]


class PlanWriter:
    """Writes the plans of functions for the target of `code`; `put`: takes the parts of programs."""

    def __init__(self, code: Code, encoder: Encoder, put: Callable[[Part], None]) -> None:
        self.code, self._encoder, self._put = code, encoder, put
        self._schedules = code.target.schedules
        self._keys: dict[Program, str] = {}
        self._whole_subgroups = cache(of_whole_subgroups)

    def plan(
        self, executable: ProgramExecutable | PipelineExecutable, calls: Sequence[Mapping[str, int]]
    ) -> Row:
        """The plan of a program or a pipeline; `calls`: lengths of buffers, to have code of their own.  Raises Unpackable."""
        row = (
            self._pipeline(executable, calls)
            if isinstance(executable, PipelineExecutable)
            else self._program(executable, calls)
        )
        return {**row, "extents": open_extents(executable.signature.buffers)}

    def call(self, function: Any, arguments: Sequence[Any]) -> Row:
        """The plan of a function on arrays for a call.  Raises BadInputs."""
        planned, options = planned_call(function, arguments, self.code.planner, self.code.target)
        return {
            "call": encoded_call(planned.call, self._encoder, self._launched_by),
            "names": list(planned.names),
            "operands": [[list(operand.shape), operand.kind] for operand in planned.operands],
            "options": options,
        }

    def _launched_by(self, call: KernelCall) -> Row:
        """The program of a launch: the key of its part, and what it writes whole."""
        key = self._key(call.program, call.module or Module())
        self._put(Part(f"texts/{call.program.name}-{key[:16]}", "text", str(call.program).encode()))
        return {"key": key, "whole_writes": self._encoder.whole_writes(forms_of_text(call.program))}

    # --- programs

    def _program(self, executable: ProgramExecutable, calls: Sequence[Mapping[str, int]]) -> Row:
        program, module = executable.program, executable.module
        own: list[Row] = []
        of_classes: list[Row] = []

        def add(variants: list[Row], lengths: Mapping[str, Any], lowered: Program | None) -> None:
            if lengths and lowered is not None and not any(each["lengths"] == lengths for each in variants):
                variants.append(_variant(lengths, [], {program.name: self._code(lowered, module)}))

        for lengths in calls if has_slices(program) else ():
            shapes = _shapes_of(program.bound_buffers, lengths)
            lowered, fixed = self._lowered(executable, program, shapes)
            add(own, fixed, lowered)
            of_class, rows = executable.rewrites.lowered_class(program, shapes, self._schedules)
            extents = {_key(program.buffers[row.buffer], row.dimension): each for row, each in rows.items()}
            add(of_classes, _ranges(extents), of_class)
        variants = [*own, *of_classes]
        general: Program | None = program
        if has_slices(program):
            general = executable.rewrites.lowered_slices(program, None, self._schedules)
        if general is not None:
            variants.append(_variant({}, [], {program.name: self._code(general, module)}))
        if not variants:
            raise Unpackable(
                f"how it is lowered depends on the lengths of rows; say them: shapes={{{program.name!r}: [(x, y)]}}, x and y arrays of one"
            )
        return {"programs": [self._declared(program)], "variants": variants}

    def _lowered(
        self, executable: ProgramExecutable | PipelineExecutable, program: Program, shapes: Any
    ) -> tuple[Program, dict[str, int]]:
        """A program with slices for shapes of its buffers, and the lengths that this is for."""
        lowered = executable.rewrites.lowered_slices(program, shapes, self._schedules)
        assert lowered is not None
        fixed: dict[str, int] = {}
        for buffer in program.bound_buffers:
            for dimension, extent in enumerate(lowered.buffers[buffer.name].shape):
                if buffer.shape[dimension] is None and extent is not None:
                    fixed[_key(buffer, dimension)] = extent
        return lowered, fixed

    def _declared(self, program: Program) -> Row:
        return self._encoder.declared(program, forms_of_text(program))

    def _code(self, program: Program, module: Module) -> Row:
        """The code that launches of a program run; its parts are there then."""
        wide, workgroups = self._whole_subgroups(program)
        count = None if workgroups == 1 else groups_param(program)
        return {"count": count, "key": self._key(wide, module), "workgroups": workgroups}

    def _key(self, program: Program, module: Module) -> str:
        """The key of a program, whose parts are there then."""
        key = self._keys.get(program)
        if key is None:
            key, parts = self.code.parts(program, module, self._encoder)
            for part in parts:
                self._put(part)
            self._keys[program] = key
        return key

    # --- pipelines

    def _pipeline(self, executable: PipelineExecutable, calls: Sequence[Mapping[str, int]]) -> Row:
        own: list[Row] = []
        of_classes: dict[PipelineExecutable, Row] = {}
        for lengths in calls:
            variant = self._variant_for(executable, lengths)
            if not any((v["lengths"], v["equal"]) == (variant["lengths"], variant["equal"]) for v in own):
                own.append(variant)
            of_class = executable.class_variant(lengths)
            if of_class is None or of_class[0] in of_classes:
                continue
            module = _with_programs(of_class[0], self._schedules)
            if module is not None:
                ranges, equal = _ranges(of_class[1]), _equal(executable, lengths)
                of_classes[of_class[0]] = self._pipeline_variant(ranges, equal, module, executable.name)
        own.sort(key=lambda variant: (-len(variant["lengths"]), -len(variant["equal"])))
        variants = [*own, *of_classes.values()]
        general = _with_programs(executable, self._schedules)
        if general is not None:
            variants.append(self._pipeline_variant({}, [], general, executable.name))
        if not variants:
            raise Unpackable(
                f"what it launches depends on lengths; say them: shapes={{{executable.name!r}: [(x, y)]}}, x and y arrays of one"
            )
        return {"shape_params": list(executable.shape_params), "variants": variants}

    def _variant_for(self, executable: PipelineExecutable, lengths: Mapping[str, int]) -> Row:
        """The variant for a class of calls that one of these lengths is in."""
        own = executable.exact_variant(lengths)
        buffers = executable.signature.buffers
        module = _with_programs(own, self._schedules)
        if module is None:
            return self._exact_variant(own, {key: lengths[key] for key in open_extents(buffers)}, lengths)
        inside = module.pipelines[own.name].buffers  # passes may have dropped some
        fixed = {
            _key(buffer, dimension): extent
            for buffer in buffers
            if buffer.name in inside
            for dimension, extent in enumerate(inside[buffer.name].shape)
            if buffer.extents[dimension] is None and extent is not None
        }
        equal = _equal(executable, lengths) if own is not executable else []
        return self._pipeline_variant(fixed, equal, module, own.name)

    def _exact_variant(
        self, executable: PipelineExecutable, fixed: dict[str, int], lengths: Mapping[str, int]
    ) -> Row:
        """The variant for these lengths alone, whose launches are those of a plan."""
        if executable.shape_params:
            raise Unpackable(
                f"what it launches depends on lengths and on {', '.join(executable.shape_params)}"
            )
        plan = make_plan(executable.module, executable.pipeline, lengths, self._schedules, expands=True)
        module = plan.module
        code: dict[str, Row] = {}
        for step in steps_of(plan.steps):
            if not isinstance(step, LaunchStep):
                continue
            program = step.program
            if has_slices(program):
                bound = zip(program.bound_buffers, step.buffers, strict=True)
                shapes = {formal.name: plan.buffers[name].shape for formal, name in bound}
                program, _ = self._lowered(executable, program, shapes)
            row = self._code(program, module)
            if code.setdefault(program.name, row) != row:
                raise Unpackable(f"@{program.name} is launched on rows of several lengths")
        row = _variant(fixed, [], code)
        row["pipeline"] = self._encoder.pipeline(plan.pipeline)
        row["programs"] = [self._declared(program) for program in _launched(module, executable.name)]
        return row

    def _pipeline_variant(
        self, lengths: Mapping[str, Any], equal: list[list[str]], module: Module, name: str
    ) -> Row:
        programs = _launched(module, name)
        row = _variant(lengths, equal, {program.name: self._code(program, module) for program in programs})
        row["pipeline"] = self._encoder.pipeline(module.pipelines[name])
        row["programs"] = [self._declared(program) for program in programs]
        return row


def _variant(lengths: Mapping[str, Any], equal: list[list[str]], code: Mapping[str, Row]) -> Row:
    """A variant for calls with these lengths, each a number, or the least and the most."""
    return {"code": dict(code), "equal": equal, "lengths": dict(lengths)}


def _equal(executable: PipelineExecutable, lengths: Mapping[str, int]) -> list[list[str]]:
    """Pairs of extents that are equal in a call."""
    buffers = executable.signature.buffers
    named = {buffer.name: buffer for buffer in buffers}
    return [[_key(named[name], along) for name, along in pair] for pair in equal_lengths(buffers, lengths)]


def _ranges(extents: Mapping[str, Bounds]) -> dict[str, list[int | None]]:
    return {key: [bounds.least, bounds.most] for key, bounds in extents.items()}


def _with_programs(executable: PipelineExecutable, schedules: str) -> Module | None:
    """The module of a pipeline whose stages are launches of programs without slices; None where that takes lengths."""
    module = copy_module(executable.module)
    PassManager("expand_kernels{counts=false}", target=schedules, verify_each=False).run(module)
    stages = list(module.pipelines[executable.name].walk())
    if any(isinstance(stage, KernelStage | Fill) for stage in stages):
        return None
    return None if any(map(has_slices, _launched(module, executable.name))) else module


def _launched(module: Module, name: str) -> list[Program]:
    """The programs that a pipeline launches."""
    stages = module.pipelines[name].walk()
    names = dict.fromkeys(stage.program for stage in stages if isinstance(stage, Launch))
    return [module.programs[each] for each in names]


def _key(buffer: Buffer, dimension: int) -> str:
    """Key of an extent among lengths."""
    return length_key(buffer.name, dimension if buffer.dimensions > 1 else None)


def open_extents(buffers: Sequence[Buffer]) -> list[str]:
    return [
        _key(buffer, dimension)
        for buffer in buffers
        for dimension, extent in enumerate(buffer.extents)
        if extent is None
    ]


def _shapes_of(buffers: Sequence[Buffer], lengths: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {
        buffer.name: tuple(
            lengths[_key(buffer, dimension)] if extent is None else extent
            for dimension, extent in enumerate(buffer.shape)
        )
        for buffer in buffers
    }
