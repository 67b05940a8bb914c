"""Programs and pipelines of a pack as executables: planned as those that are compiled here, of what the pack has.

A function has a plan for each target that it was packed for, and a plan a variant for each class of shapes, the narrowest first:

    lengths     these extents of the arrays alone, as of rows that a program is lowered for
    equal       all calls in which some extents are equal, by which launches were joined
    neither     all calls
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ..driver.binding import Signature
from ..driver.executable import Executable
from ..driver.pipeline import PipelineExecutable
from ..driver.program import ProgramExecutable
from ..execution.array_backend import ArrayBackend
from ..execution.dispatcher import BackendError, BadInputs
from ..execution.plans.call_plan import CallPlan, Loaded
from ..execution.plans.steps import AnyStep, LaunchStep, RepeatStep
from ..ir.pipeline import Pipeline
from ..ir.program import Dim3, Module, Program
from ..ir.tracebacks import CallerError, hide_own_frames
from ..pack_files.format import PackError
from .decoding import decoding, number, numbers, text, texts
from .ir_data import Decoder
from .pack_target import PackTarget, gpus_of
from .targets import PackTargets

if TYPE_CHECKING:
    from .gpu import PackedGpu
    from .target import PackedTarget

__all__ = ["PackedCallable", "PackedPipeline", "PackedProgram"]

Row = Mapping[str, Any]


class PackedCallable:
    """A program or a pipeline of a pack, called as what `vyre_opt.compile` returns, where its arrays are.

    `signature`: see `Signature`; `row`: the part of the function.  Raises PackError for a row that is none.
    """

    def __init__(self, row: Row, targets: PackTargets) -> None:
        name = row["name"]
        self.name, self._targets = name, targets
        self._is_program = row["kind"] == "program"
        self._entry = targets.decoder.signature(row["signature"], self._is_program)
        self.signature = Signature.of(self._entry)
        self._made: dict[PackTarget[Any], PackedProgram | PackedPipeline] = {}

    def __repr__(self) -> str:
        return f"<packed {self.signature.owner} @{self.name}>"

    @property
    def program(self) -> Program:
        """The program, without its body.  Of a pipeline there is none."""
        assert isinstance(self._entry, Program)
        return self._entry

    def of(self, arrays: Iterable[Any]) -> PackedProgram | PackedPipeline:
        """The executable for a call on arrays.  Raises PackError where the pack has no code for where they are."""
        target = self._targets.of(arrays)
        made = self._made.get(target)
        if made is None:
            part = self._part(target)
            plan, decoder = _Plan(self, target, part), self._targets.decoder
            with decoding(self._targets.pack, part):
                if self._is_program:
                    made = PackedProgram(plan, decoder)
                    if _arguments(made.signature) != _arguments(self.signature):
                        raise ValueError(f"its program takes other arguments than {self.name}")
                else:
                    made = PackedPipeline(plan, decoder, cast(Pipeline, self._entry))
            self._made[target] = made
        return made

    def _part(self, target: PackedTarget | PackedGpu) -> str:
        if target.name == "cpu":
            return target.plan_of(self.name)
        return cast("PackedGpu", target).plan_of(self.name, self._entry.loc)

    def __call__(self, inputs: Any = (), grid: Any = None, **options: Any) -> dict[str, Any]:
        """See `ProgramExecutable` and `PipelineExecutable`."""
        arrays = inputs.values() if isinstance(inputs, Mapping) else inputs
        try:
            return self.of(arrays if isinstance(arrays, Iterable) else ())(inputs, grid, **options)
        except CallerError as error:
            hide_own_frames(error)
            raise

    def ptx(self, gpu: str | None = None) -> str:
        """PTX of a program for a GPU that the pack has it for, by default the first.  Raises PackError."""
        pack, packed = self._targets.pack, gpus_of(self._targets.pack, self.name)
        found = [name for name in packed if gpu in (None, name)]
        if not found or not self._is_program:
            raise PackError(f"{pack.name} has PTX of {self.name} for {', '.join(packed) or 'no GPU'}")
        part = f"plans/{self.name}/{found[0]}"
        row = pack.read_json(part)
        with decoding(pack, part):
            key = text(row["variants"][-1]["code"][self._entry.name]["key"])
        return pack.read_text(f"ptx/{key}")

    def report(self, *args: Any, **options: Any) -> Any:
        raise BackendError("a report of a call needs the compiler: compile the function with vyre-opt")

    time = report

    def llvm(self, gpu: str | None = None) -> str:
        raise BackendError("a pack has no LLVM IR: compile the function with vyre-opt")


def _arguments(signature: Signature) -> object:
    """All that a caller passes, in order."""
    buffers = [(each.name, each.dtype, each.access, each.shape) for each in signature.buffers]
    return buffers, [(name, param.dtype) for name, param in sorted(signature.params.items())]


class _Code:
    """Code of a program.  `key`: of its part.

    `workgroups`: the number of workgroups of the program that one of the code does the work of; for several the code is told by the
    runtime scalar `count` how many there are.
    """

    def __init__(self, row: Row) -> None:
        self.key, self.workgroups = text(row["key"]), number(row["workgroups"], 1)
        self.count = text(row["count"]) if self.workgroups > 1 else ""

    def launch(self, step: LaunchStep, target: PackTarget[Any]) -> LaunchStep:
        """A launch of the program as one of the code."""
        program = target.program(self.key)
        if self.workgroups == 1:
            return replace(step, program=program)
        groups, rows, layers = step.grid
        wide = step.relaunched(program, (-(-groups // self.workgroups), rows, layers), {self.count: groups})
        narrow = replace(program, workgroup=(program.workgroup[0], 1, 1))
        return replace(wide, original=replace(step, program=narrow))


class _Variant:
    """A variant of a plan.  `code`: of the programs that it launches, by their names; `row`: as the pack has it."""

    def __init__(self, row: Row, extents: Sequence[str]) -> None:
        self.row, self.code = row, {name: _Code(code) for name, code in row["code"].items()}
        self.lengths = {key: _range(length) for key, length in row["lengths"].items()}
        self.equal = [(text(one), text(other)) for one, other in row["equal"]]
        unknown = {*self.lengths, *(key for pair in self.equal for key in pair)} - {*extents}
        if unknown:
            raise ValueError(f"{min(unknown)} is no extent")


class _Plan:
    """The plan of a function for a target.  `part`: where the pack has it."""

    def __init__(self, function: PackedCallable, target: PackTarget[Any], part: str) -> None:
        self.name, self.target, self.part = function.name, target, part
        self.pack = function._targets.pack
        row = self.pack.read_json(part)
        with decoding(self.pack, part):
            self.row, self.extents = row, texts(row["extents"])
            self.variants = [_Variant(variant, self.extents) for variant in row["variants"]]

    def variant(self, lengths: Mapping[str, int]) -> _Variant:
        """The variant for a call.  Raises BadInputs where the pack has none."""
        for variant in self.variants:
            is_equal = all(lengths[one] == lengths[other] for one, other in variant.equal)
            if is_equal and all(lengths[key] in taken for key, taken in variant.lengths.items()):
                return variant
        packed = " or ".join(_shown(variant.lengths) for variant in self.variants)
        raise BadInputs(
            f"{self.name} is packed for {packed}, and this call has {_shown({key: _range(lengths[key]) for key in self.extents})}; "
            "pack it for these shapes, too"
        )

    def declared(self, rows: Sequence[Row], decoder: Decoder) -> Module:
        """The programs that it launches, as plans see them."""
        module = Module()
        for row in rows:
            program = decoder.program(row["declared"])
            program.body = decoder.body(row["lengths"])
            self.target.set_forms(program, self.part, row["whole_writes"])
            module.add(program)
        return module


class _Packed(Executable):
    """Executable whose launches run code of a pack."""

    packed: _Plan

    @abstractmethod
    def _code_for(self, lengths: Mapping[str, int]) -> Mapping[str, _Code]:
        """The code of a call, by the names of programs.  Raises BadInputs where the pack has none."""

    def _load(self, *args: Any, **options: Any) -> tuple[CallPlan, Loaded]:
        """The plan of a call, whose parts may contradict each other.  Raises PackError."""
        with decoding(self.packed.pack, self.packed.part):
            return super()._load(*args, **options)

    def _rewritten(
        self,
        backend: ArrayBackend,
        named: Mapping[str, Any],
        grid: Dim3 | None,
        words: Mapping[str, int],
        has_storage: bool = False,
        in_place: bool = False,
    ) -> CallPlan:
        code, packed = self._code_for(self.lengths(named)), self.packed
        call = self.plan(backend, named, grid, words, has_storage, in_place)
        return _with_code(call, lambda step: code[step.program.name].launch(step, packed.target))


class PackedProgram(_Packed, ProgramExecutable):
    """A program of a pack for a target."""

    def __init__(self, plan: _Plan, decoder: Decoder) -> None:
        self.packed = plan
        module = plan.declared(plan.row["programs"], decoder)
        (program,) = module.programs.values()
        super().__init__(module, program.name, plan.target)

    def _code_for(self, lengths: Mapping[str, int]) -> Mapping[str, _Code]:
        return self.packed.variant(lengths).code


class PackedPipeline(PipelineExecutable):
    """A pipeline of a pack for a target."""

    def __init__(self, plan: _Plan, decoder: Decoder, entry: Pipeline) -> None:
        self.packed, self._decoder = plan, decoder
        self._made: dict[_Variant, PipelineExecutable] = {}
        module = Module()
        module.add(entry)
        super().__init__(module, entry.name, plan.target)
        self.shape_params = texts(plan.row["shape_params"])

    def variant(self, lengths: Mapping[str, int]) -> PipelineExecutable:
        variant = self.packed.variant(lengths)
        made = self._made.get(variant)
        if made is None:
            with decoding(self.packed.pack, self.packed.part):
                made = self._made[variant] = _PipelineVariant(self, variant, self._decoder)
        return made


class _PipelineVariant(_Packed, PipelineExecutable):
    """A pipeline of a pack after its passes."""

    def __init__(self, owner: PackedPipeline, variant: _Variant, decoder: Decoder) -> None:
        self.packed = owner.packed
        self._code = variant.code
        module = self.packed.declared(variant.row["programs"], decoder)
        module.add(decoder.pipeline(variant.row["pipeline"]))
        super().__init__(module, owner.name, owner.dispatcher, owner.syntax)
        self.signature = owner.signature

    def _code_for(self, lengths: Mapping[str, int]) -> Mapping[str, _Code]:
        return self._code


def _with_code(call: CallPlan, launch: Callable[[LaunchStep], LaunchStep]) -> CallPlan:
    """A call whose launches run the code of the pack; `launch`: gives these."""

    def with_code(step: AnyStep) -> AnyStep:
        if isinstance(step, RepeatStep):
            return RepeatStep(step.times, list(map(with_code, step.steps)))
        return launch(step) if isinstance(step, LaunchStep) else step

    return replace(call, plan=replace(call.plan, steps=list(map(with_code, call.plan.steps))))


def _range(value: Any) -> range:
    """The lengths that a number, or a pair of the least and the most, stands for."""
    least, most = numbers(value) if isinstance(value, list) else (number(value),) * 2
    if least > most:
        raise ValueError(f"no length is from {least} to {most}")
    return range(least, most + 1)


def _shown(lengths: Mapping[str, range]) -> str:
    return ", ".join(
        f"len({key.replace(',', ', ')}) = {taken[0]}{f' to {taken[-1]}' if len(taken) > 1 else ''}"
        for key, taken in lengths.items()
    )
