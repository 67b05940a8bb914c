"""Functions as parts of a pack: a variant for each class of shapes, and the programs that these launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..driver.compile import compile_module
from ..driver.pass_pipeline import Passes
from ..driver.pipeline import PipelineExecutable, equal_lengths
from ..driver.pipeline_plan import make_plan
from ..driver.program import ProgramExecutable
from ..execution.arrays import storage_type
from ..execution.dispatcher import BadInputs
from ..execution.plans.steps import LaunchStep, steps_of
from ..execution.plans.zeroed import forms_of_text
from ..ir.grids import length_key
from ..ir.pipeline import Fill, HostRead, KernelStage, Launch, Pipeline
from ..ir.program import Buffer, Module, Program
from ..ir.shapes import has_slices
from ..kernels.call import KernelCall
from ..lowering.nvptx.abi import Unit
from ..lowering.nvptx.kernel import lower
from ..lowering.nvptx.ptx import emit_ptx
from ..lowering.nvptx.targets import gpu
from ..pack_files.format import Part, canonical
from ..packs.array_functions import encoded_call
from ..packs.ir_data import Encoder, Unpackable
from ..passes.manager import PassManager
from ..rewriting.cloning import copy_module
from ..targets.cpu.dispatcher import CpuDispatcher
from .array_functions import planned_call, taken_as
from .code import program_parts
from .decisions import decision_parts

__all__ = ["FunctionPacker", "Shapes"]

Shapes = Sequence[Sequence[Any] | Mapping[str, Any]]
"""The arrays of calls, in the order of a function's or by name."""

Row = dict[str, Any]


class FunctionPacker:
    """Collects the parts of functions.  `names`: of the functions; `parts`: by name.

    `levels`: the processors that programs are compiled for, `opt`: at a level of LLVM's optimiser; `gpus`: whose PTX they get.
    """

    def __init__(self, encoder: Encoder, levels: Sequence[str], gpus: Sequence[str], opt: int) -> None:
        self.encoder, self.names = encoder, set[str]()
        self.parts: dict[str, Part] = {}
        self._levels, self._gpus, self._opt = levels, gpus, opt
        # forms that depend on the number of threads are for the machine that runs the code
        self._dispatcher = CpuDispatcher(workers=1)
        self._keys: dict[Program, str] = {}

    def add(self, name: str, module: Module, passes: Passes, shapes: Shapes, call: Mapping[str, Any]) -> None:
        """Add the function `name` of a module; `call`: how it is called.  Raises BadInputs, DiagnosticError."""
        if name in self.names:
            raise BadInputs(f"two functions are named {name}; a pack has one of each name")
        self.names.add(name)
        executable = compile_module(module, name, self._dispatcher, {}, passes)
        try:
            if isinstance(executable, PipelineExecutable):
                row = self._pipeline(module.pipelines[name], executable, self._lengths(executable, shapes))
            else:
                row = self._program(executable, self._lengths(executable, shapes))
        except Unpackable as error:
            raise BadInputs(f"{name} cannot be packed: {error}") from None
        row |= {**call, "extents": _open_extents(executable.signature.buffers), "name": name}
        self._put(Part(f"functions/{name}", "function", canonical(row)))
        for part in decision_parts(name, module, passes):
            self._put(part)

    def add_array_function(self, function: Any, name: str, calls: Sequence[Any]) -> None:
        """Add a function on arrays for some calls.  Raises BadInputs."""
        if name in self.names:
            raise BadInputs(f"two functions are named {name}; a pack has one of each name")
        if not calls:
            raise BadInputs(
                f"{name} is packed for the shapes of calls; say them: shapes={{{name!r}: [(arrays)]}}"
            )
        self.names.add(name)
        rows = []
        for arguments in calls:
            call, operands, names, options = planned_call(function, arguments)
            rows.append(
                {
                    "call": encoded_call(call, self.encoder, self._launched_by),
                    "names": list(names),
                    "operands": [[list(operand.shape), operand.kind] for operand in operands],
                    "options": options,
                }
            )
        row = {"calls": rows, "kind": "arrays", "name": name, "take": taken_as(function)}
        self._put(Part(f"functions/{name}", "function", canonical(row)))

    def _launched_by(self, call: KernelCall) -> Row:
        """The program of a launch: the key of its part, and what it writes whole."""
        key = self._code(call.program, call.module or Module())
        self._put(Part(f"texts/{call.program.name}-{key[:16]}", "text", str(call.program).encode()))
        return {"key": key, "whole_writes": self.encoder.whole_writes(forms_of_text(call.program))}

    def _put(self, part: Part) -> None:
        self.parts[part.name] = part

    # --- lengths

    def _lengths(
        self, executable: ProgramExecutable | PipelineExecutable, shapes: Shapes
    ) -> list[dict[str, int]]:
        """The lengths of the buffers of each call."""
        return [self._lengths_of_call(executable, arrays) for arrays in shapes]

    def _lengths_of_call(
        self, executable: ProgramExecutable | PipelineExecutable, arrays: Sequence[Any] | Mapping[str, Any]
    ) -> dict[str, int]:
        buffers = executable.signature.parameters
        if not isinstance(arrays, Mapping):
            if len(arrays) != len(buffers):
                listed = ", ".join(buffer.name for buffer in buffers)
                raise BadInputs(f"shapes[{executable.name!r}]: a call has {len(buffers)} arrays, {listed}")
            arrays = {buffer.name: array for buffer, array in zip(buffers, arrays, strict=True)}
        given = {
            buffer.name: np.empty(np.shape(arrays[buffer.name]), storage_type(buffer.dtype))
            for buffer in buffers
            if buffer.name in arrays
        }
        return executable.lengths_of_call(given)

    # --- programs

    def _program(self, executable: ProgramExecutable, calls: Sequence[Mapping[str, int]]) -> Row:
        program, module = executable.program, executable.module
        variants: list[Row] = []
        for lengths in calls if has_slices(program) else ():
            lowered, fixed = self._lowered(executable, program, _shapes_of(program.bound_buffers, lengths))
            if fixed and not any(variant["lengths"] == fixed for variant in variants):
                variants.append(_variant(fixed, [], {program.name: self._code(lowered, module)}))
        general: Program | None = program
        if has_slices(program):
            general = executable.rewrites.lowered_slices(program, None, "cpu")
        if general is not None:
            variants.append(_variant({}, [], {program.name: self._code(general, module)}))
        if not variants:
            raise Unpackable(
                f"how it is lowered depends on the lengths of rows; say them: shapes={{{program.name!r}: [(arrays)]}}"
            )
        return {"kind": "program", "programs": [self._declared(program)], "variants": variants}

    def _lowered(
        self, executable: ProgramExecutable | PipelineExecutable, program: Program, shapes: Any
    ) -> tuple[Program, dict[str, int]]:
        """A program with slices for shapes of its buffers, and the lengths that this is for."""
        lowered = executable.rewrites.lowered_slices(program, shapes, "cpu")
        assert lowered is not None
        fixed: dict[str, int] = {}
        for buffer in program.bound_buffers:
            for dimension, extent in enumerate(lowered.buffers[buffer.name].shape):
                if buffer.shape[dimension] is None and extent is not None:
                    fixed[_key(buffer, dimension)] = extent
        return lowered, fixed

    def _declared(self, program: Program) -> Row:
        return self.encoder.declared(program, forms_of_text(program))

    def _code(self, program: Program, module: Module) -> str:
        """The key of a program, whose parts are there then."""
        key = self._keys.get(program)
        if key is None:
            key, parts = program_parts(program, module, self.encoder, self._levels, self._opt)
            for part in parts:
                self._put(part)
            for name in self._gpus:
                self._put(self._ptx(key, program, module, name))
            self._keys[program] = key
        return key

    def _ptx(self, key: str, program: Program, module: Module, name: str) -> Part:
        target = gpu(name)
        lowered = lower([Unit(program, module, program.spec_defaults)], target, "trap")
        return Part(f"ptx/{key}/{name}", "ptx", emit_ptx(lowered, target).encode(), {"program": program.name})

    # --- pipelines

    def _pipeline(
        self, declared: Pipeline, executable: PipelineExecutable, calls: Sequence[Mapping[str, int]]
    ) -> Row:
        variants: list[Row] = []
        for lengths in calls:
            variant = self._variant_for(executable, lengths)
            if not any(
                (v["lengths"], v["equal"]) == (variant["lengths"], variant["equal"]) for v in variants
            ):
                variants.append(variant)
        variants.sort(key=lambda variant: (-len(variant["lengths"]), -len(variant["equal"])))
        general = _with_programs(executable)
        if general is not None:
            variants.append(self._pipeline_variant({}, [], general, executable.name))
        if not variants:
            raise Unpackable(
                f"what it launches depends on lengths; say them: shapes={{{executable.name!r}: [(arrays)]}}"
            )
        signature = Pipeline(
            declared.name, buffers=declared.buffers, params=declared.params, loc=declared.loc
        )
        signature.stages = [stage for stage in declared.walk() if isinstance(stage, HostRead)]
        return {
            "kind": "pipeline",
            "pipeline": self.encoder.pipeline(signature),
            "shape_params": list(executable.shape_params),
            "variants": variants,
        }

    def _variant_for(self, executable: PipelineExecutable, lengths: Mapping[str, int]) -> Row:
        """The variant for a class of calls that one of these lengths is in."""
        own = executable.variant(lengths)
        buffers = executable.signature.buffers
        module = _with_programs(own)
        if module is None:
            return self._exact_variant(own, {key: lengths[key] for key in _open_extents(buffers)}, lengths)
        inside = module.pipelines[own.name].buffers  # passes may have dropped some
        fixed = {
            _key(buffer, dimension): extent
            for buffer in buffers
            if buffer.name in inside
            for dimension, extent in enumerate(inside[buffer.name].shape)
            if buffer.extents[dimension] is None and extent is not None
        }
        pairs = equal_lengths(buffers, lengths) if own is not executable else ()
        named = {buffer.name: buffer for buffer in buffers}
        equal = [[_key(named[name], along) for name, along in pair] for pair in pairs]
        return self._pipeline_variant(fixed, equal, module, own.name)

    def _exact_variant(
        self, executable: PipelineExecutable, fixed: dict[str, int], lengths: Mapping[str, int]
    ) -> Row:
        """The variant for these lengths alone, whose launches are those of a plan."""
        if executable.shape_params:
            raise Unpackable(
                f"what it launches depends on lengths and on {', '.join(executable.shape_params)}"
            )
        plan = make_plan(executable.module, executable.pipeline, lengths, "cpu", expands=True)
        module = plan.module
        code: dict[str, str] = {}
        for step in steps_of(plan.steps):
            if not isinstance(step, LaunchStep):
                continue
            program = step.program
            if has_slices(program):
                bound = zip(program.bound_buffers, step.buffers, strict=True)
                shapes = {formal.name: plan.buffers[name].shape for formal, name in bound}
                program, _ = self._lowered(executable, program, shapes)
            key = self._code(program, module)
            if code.setdefault(program.name, key) != key:
                raise Unpackable(f"@{program.name} is launched on rows of several lengths")
        row = _variant(fixed, [], code)
        row["pipeline"] = self.encoder.pipeline(plan.pipeline)
        row["programs"] = [self._declared(program) for program in _launched(module, executable.name)]
        return row

    def _pipeline_variant(
        self, fixed: Mapping[str, int], equal: list[list[str]], module: Module, name: str
    ) -> Row:
        programs = _launched(module, name)
        row = _variant(fixed, equal, {program.name: self._code(program, module) for program in programs})
        row["pipeline"] = self.encoder.pipeline(module.pipelines[name])
        row["programs"] = [self._declared(program) for program in programs]
        return row


def _variant(fixed: Mapping[str, int], equal: list[list[str]], code: Mapping[str, str]) -> Row:
    return {"code": dict(code), "equal": equal, "lengths": dict(fixed)}


def _with_programs(executable: PipelineExecutable) -> Module | None:
    """The module of a pipeline whose stages are launches of programs without slices; None where that takes lengths."""
    module = copy_module(executable.module)
    PassManager("expand_kernels{counts=false}", target="cpu", verify_each=False).run(module)
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


def _open_extents(buffers: Sequence[Buffer]) -> list[str]:
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
