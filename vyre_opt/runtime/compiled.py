"""Programs and pipelines as functions: `compile` makes a callable, `run` calls it once.

    double = vyre_opt.compile(Path("double.vyre"), specs={"by": 3})
    outputs = double({"x": x}, grid=4)                  # {"y": array}

A call dispatches; what a dispatcher compiled, it keeps, so later calls only run.  The command
line's `vyre-run` is this too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.pipeline import Pipeline
from ..ir.program import Buffer, Module, Op, Program
from ..specialization.binding import fix_types
from .binding import PYTHON, Signature, Wording, bind, choose, default_grid, set_specs
from .copies import copy_for
from .dispatcher import BackendError, BadInputs, Dispatcher, Room, Scratch
from .places import Operand, Place, Target, is_torch, place_of, target

if TYPE_CHECKING:
    from ..lowering.nvptx import Lowered
    from ..lowering.targets import GpuTarget
    from .pipelines.entry import CompiledPipeline

__all__ = ["Compiled", "Ready", "compile", "compile_module", "in_kind", "run", "taken"]

Inputs = Mapping[str, Any] | Sequence[Any]
Grid = int | Sequence[int] | None


def compile(
    source: str | Path | Module | Program,
    *,
    entry: str | None = None,
    target: Target = "cpu",
    specs: Mapping[str, Any] | None = None,
    passes: Any = None,
) -> Compiled | CompiledPipeline:
    """A program or a pipeline that is ready to be called; see `Compiled` and `CompiledPipeline`.

    `source`: the text of a program, the path of a file, or what was parsed or built, which stays
    as it is.  `entry`: which program or pipeline; without it the pipeline @main, or the
    only pipeline, or the only program where there is no pipeline.  `target`: ref, cpu, cuda, or a
    dispatcher.  `specs`: values of specialization constants by name, in place of their defaults,
    as Python values or as text ("0x1f").  `passes`: a pipeline to run before, such as
    "canonicalize,decode_scan_fuse", or a list of passes.  Named kernels are expanded after it,
    but for ref, which runs them itself.

    Raises DiagnosticError for a program that is wrong, BadInputs (a ValueError) for arguments that
    do not fit it, and OSError for a file that cannot be read.
    """
    return compile_module(_module(source), entry, target, specs or {}, passes)


def run(
    source: str | Path | Module | Program,
    inputs: Inputs = (),
    grid: Grid = None,
    *,
    entry: str | None = None,
    target: Target = "cpu",
    specs: Mapping[str, Any] | None = None,
    lengths: Mapping[str, int] | None = None,
    passes: Any = None,
) -> dict[str, Any]:
    """Compile and call once: see `compile`, and `Compiled` for `inputs`, `grid` and `lengths`."""
    made = compile(source, entry=entry, target=target, specs=specs, passes=passes)
    return made(inputs, grid, lengths=lengths)


def compile_module(
    module: Module,
    entry: str | None,
    target: Target,
    specs: Mapping[str, Any],
    passes: Any = None,
    words: Wording = PYTHON,
) -> Compiled | CompiledPipeline:
    """`compile` for a module that verifies, with messages in the words of who asks."""
    item = choose(module, entry, words)
    own = copy_for(module, item)
    values = fix_types(own, specs)
    set_specs(list(own.programs.values()), values, Signature.of(item).title, words)
    made: Compiled | CompiledPipeline
    if isinstance(item, Pipeline):
        from .pipelines.entry import CompiledPipeline

        made = CompiledPipeline(own, item.name, target, words)
    else:
        made = Compiled(own, item.name, target, words)
    made.transform(passes)
    return made


class Ready:
    """What is common to programs and pipelines that can be called.

    `module`: its own, after passes, constants and expansion, which nobody changes after the first
    call; `name`: of the entry.
    """

    def __init__(self, module: Module, name: str, given: Target, words: Wording = PYTHON) -> None:
        self.module = module
        self.name = name
        self.words = words
        self.dispatcher: Dispatcher = target(given)
        self._given = given

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.dispatcher.name

    def transform(self, passes: Any) -> None:
        """Run a pipeline of passes, and expand the kernels that are programs, unless ref is to run them.

        Before the first call only.
        Raises BadInputs for a wrong pipeline, DiagnosticError for a kernel that has no program.
        """
        from ..passes.manager import PassManager
        from ..passes.registry import PassError

        if passes:
            try:
                manager = PassManager(passes, target=self.schedules_for)
            except PassError as wrong:
                raise BadInputs(str(wrong)) from None
            manager.run(self.module)
        if self.target == "ref" or not _kernels(self.module):
            return
        done = PassManager("expand_kernels", target=self.schedules_for).run(self.module)
        reasons = {id(remark.loc): remark.message for remark in done.remarks if remark.kind == "refused"}
        errors = [
            Diagnostic("error", f"program @{name}: {reasons.get(id(op.loc), op.name)}", op.loc)
            for name, op in _kernels(self.module)
        ]
        if errors:
            raise DiagnosticError(errors)

    @property
    def schedules_for(self) -> str:
        """What schedules are chosen for: the GPU's architecture ("sm_90") where there is one, or the target."""
        return self._gpu() or self.target

    def _gpu(self) -> str:
        """The architecture of the GPU; empty for other targets, and where there is none."""
        try:
            facts = getattr(self.dispatcher, "facts", None)
        except BackendError:
            return ""
        return "" if facts is None else str(facts.target.name)


def _kernels(module: Module) -> list[tuple[str, Op]]:
    """The kernels that are programs, with the programs' names."""
    return [
        (program.name, op)
        for program in module.programs.values()
        for op in program.body.ops
        if op.definition.kernel is not None
    ]


class Compiled(Ready):
    """A program of its own module, for a target: call it.

    `program`: after its passes, constants and expansion, and `name` its name.
    """

    @property
    def program(self) -> Program:
        return self.module.programs[self.name]

    @cached_property
    def signature(self) -> Signature:
        return Signature.of(self.program)

    def __repr__(self) -> str:
        return f"<program @{self.program.name} for {self.target}>"

    def __call__(
        self,
        inputs: Inputs = (),
        grid: Grid = None,
        *,
        lengths: Mapping[str, int] | None = None,
        scratch: Scratch | None = None,
    ) -> dict[str, Any]:
        """Run, and return the outputs by name, in binding order.

        `inputs`: arrays (or bytes) by name; or in binding order, either for the buffers that the
        program may read before it writes them, or for all bound ones.  They are never modified.
        An array that is given for an output says how long it is and what its elements hold where
        the program writes nothing; else `lengths` says how long one of open size is, and what is
        not written holds anything.
        `grid`: workgroups along x, y and z, for a program that does not fix them.
        `scratch`: storage to keep between calls.

        Outputs are of shape (count,), or (count, lanes), or of the shape of the array given for
        them.  They are NumPy arrays, or torch tensors where one is given; for cuda and arrays on a
        GPU they are on that GPU, of the library of the first of them.

        Raises BadInputs before anything runs, ProgramError for a program at fault, and
        BackendError for what else stops it.
        """
        arguments = self.arguments(inputs, lengths or {})
        return self.outputs(self.run(arguments, grid, scratch))

    def arguments(self, inputs: Inputs, lengths: Mapping[str, int]) -> list[Any]:
        """What a dispatch takes for each bound buffer.  Raises BadInputs."""
        return bind(self.signature, inputs, lengths, self.words)

    def run(self, arguments: Sequence[Any], grid: Grid, scratch: Scratch | None = None) -> list[Any]:
        """The outputs in binding order."""
        bound, program = self.signature.given, self.program
        workgroups = default_grid(program, arguments, self.words) if grid is None else grid
        arrays = {b.name: a for b, a in zip(bound, arguments, strict=True) if not isinstance(a, Room)}
        place = place_of(self._given, arrays)
        operands = [taken(place, b, a) for b, a in zip(bound, arguments, strict=True)]
        made = place.run(program, operands, workgroups, module=self.module, scratch=scratch)
        if place.on_gpu:
            return made
        owner = next(filter(is_torch, arrays.values()), None)
        back = zip(self._output_places, self.signature.outputs, made, strict=True)
        return [in_kind(place, b, arguments[k], y, owner) for k, b, y in back]

    @cached_property
    def _output_places(self) -> list[int]:
        """Where the outputs are among the bound buffers."""
        return [place for place, buffer in enumerate(self.signature.given) if buffer.is_output]

    def outputs(self, made: Sequence[Any]) -> dict[str, Any]:
        """What `run` returned, by name."""
        return dict(zip([b.name for b in self.signature.outputs], made, strict=True))

    # --- as text

    def llvm(self, gpu: str | None = None) -> str:
        """LLVM IR as the lowering writes it: of this machine for cpu, of a GPU ("sm_90") for cuda.

        Raises BadInputs for ref, which compiles nothing, and for an unknown GPU.
        """
        if self.target == "cuda":
            return self._for_gpu(gpu)[0].text
        if self.target != "cpu":
            raise BadInputs(f"{self.target} compiles nothing; compile for cpu or cuda")
        from .cpu.compiler import host_code
        from .cpu.jit import Host

        specs = {name: spec.default for name, spec in self.program.specs.items()}
        return host_code(self.program, self.module, specs, Host.this()).text

    def ptx(self, gpu: str | None = None) -> str:
        """PTX for a GPU ("sm_90"): by default this machine's, or sm_80 where there is none."""
        from ..lowering.backend import emit_ptx

        lowered, found = self._for_gpu(gpu)
        return emit_ptx(lowered, found, None)

    def _for_gpu(self, gpu: str | None) -> tuple[Lowered, GpuTarget]:
        from ..lowering.abi import Unit
        from ..lowering.nvptx import lower
        from ..lowering.targets import TargetError
        from ..lowering.targets import gpu as find

        if self.target != "cuda":
            raise BadInputs(f"this program is compiled for {self.target}; compile it for cuda")
        try:
            found = find(gpu or self._gpu() or DEFAULT_GPU)
        except TargetError as unknown:
            raise BadInputs(str(unknown)) from None
        specs = {name: spec.default for name, spec in self.program.specs.items()}
        options = getattr(self.dispatcher, "options", None)
        bounds = "trap" if options is None else options.bounds
        return lower([Unit(self.program, self.module, specs)], found, bounds), found


DEFAULT_GPU = "sm_80"


def _module(source: Any) -> Module:
    """The module that a source is or holds, verified.  Raises DiagnosticError, OSError, BadInputs."""
    from ..ir.parser import parse, parse_file
    from ..ir.verifier import check

    if isinstance(source, Path):
        return parse_file(source)
    if isinstance(source, str):
        if source.endswith(".vyre") and "\n" not in source:
            raise BadInputs(f"{source!r} is the name of a file; pass pathlib.Path({source!r}), or its text")
        return parse(source)
    if isinstance(source, Program):
        module = Module()
        module.add(source)
    elif isinstance(source, Module):
        module = source
    else:
        raise BadInputs(f"a source is a text, a Path, a Module or a Program, not {type(source).__name__}")
    check(module)
    return module


def taken(place: Place, buffer: Buffer, given: Any) -> Any:
    """An argument as a place's dispatcher takes it; what NumPy has, it checks itself."""
    if isinstance(given, Room) or place.on_gpu or isinstance(given, (bytes, bytearray, memoryview)):
        return given
    if isinstance(given, (np.ndarray, np.generic)) and given.dtype.kind != "V":
        return given
    return place.take(given, f"inputs[{buffer.name!r}]")


def in_kind(place: Place, buffer: Buffer, given: Any, made: Any, owner: Any) -> Any:
    """An output in the shape of the array given for it, and as a tensor where one was given."""
    shape = getattr(given, "shape", None) or made.shape
    is_bf16 = buffer.dtype.element.name == "bf16"
    if owner is None and not is_bf16:
        return made if made.shape == shape else made.reshape(shape)
    kind = "bfloat16" if is_bf16 else made.dtype.name
    like = owner if owner is not None or isinstance(given, Room) else given
    return place.result(made, tuple(shape), Operand(made, tuple(shape), kind, like))
