"""Programs and pipelines of a pack as executables: planned as those that are compiled here, of what the pack has.

A function has a variant for each class of shapes that it was packed for, the narrowest first:

    lengths     these extents of the arrays alone, as of rows that a program is lowered for
    equal       all calls in which some extents are equal, by which launches were joined
    neither     all calls
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..driver.executable import Executable
from ..driver.pipeline import PipelineExecutable
from ..driver.program import ProgramExecutable
from ..execution.array_backend import ArrayBackend
from ..execution.dispatcher import BackendError, BadInputs
from ..execution.plans.call_plan import CallPlan
from ..execution.plans.steps import AnyStep, LaunchStep, RepeatStep
from ..ir.program import Dim3, Module
from .ir_data import Decoder
from .target import PackedTarget

if TYPE_CHECKING:
    from ..driver.call_report import CallReport
    from ..execution.plans.watch import Times

__all__ = ["PackedPipeline", "PackedProgram", "executable_of"]

Row = Mapping[str, Any]


def executable_of(row: Row, target: PackedTarget, decoder: Decoder) -> PackedProgram | PackedPipeline:
    """The executable of a function of a pack; `row`: its part."""
    return (PackedPipeline if row["kind"] == "pipeline" else PackedProgram)(row, target, decoder)


class _Packed(Executable):
    """Executable whose launches run code of a pack.  `packed`: its target."""

    packed: PackedTarget

    @abstractmethod
    def _code_for(self, lengths: Mapping[str, int]) -> Mapping[str, str]:
        """Parts with the code of a call, by the names of programs.  Raises BadInputs where the pack has none."""

    def _rewritten(
        self,
        backend: ArrayBackend,
        named: Mapping[str, Any],
        grid: Dim3 | None,
        words: Mapping[str, int],
        has_storage: bool = False,
        in_place: bool = False,
    ) -> CallPlan:
        code = self._code_for(self.lengths(named))
        return _with_code(self.plan(backend, named, grid, words, has_storage, in_place), code, self.packed)


class _WithoutCompiler(Executable):
    """Methods that need the compiler, which executables of a pack do not have."""

    def report_on(self, *args: Any, **options: Any) -> CallReport:
        raise BackendError("a report of a call needs the compiler: compile the function with vyre-opt")

    def rounds(self, *args: Any, **options: Any) -> list[Times]:
        return []


class PackedProgram(_WithoutCompiler, _Packed, ProgramExecutable):
    """A program of a pack."""

    def __init__(self, row: Row, target: PackedTarget, decoder: Decoder) -> None:
        self.packed, self._row = target, row
        super().__init__(_declared(row["programs"], target, decoder), row["name"], target)

    def _code_for(self, lengths: Mapping[str, int]) -> Mapping[str, str]:
        return _variant_for(self._row, lengths)["code"]  # type: ignore[no-any-return]

    def ptx(self, gpu: str | None = None) -> str:
        """PTX for a GPU that the pack has it for, by default the first.  Raises PackError."""
        return self.packed.ptx(self._row["variants"][-1]["code"][self.name], gpu)

    def llvm(self, gpu: str | None = None) -> str:
        raise BackendError("a pack has no LLVM IR: compile the function with vyre-opt")


class PackedPipeline(_WithoutCompiler, PipelineExecutable):
    """A pipeline of a pack."""

    def __init__(self, row: Row, target: PackedTarget, decoder: Decoder) -> None:
        self.packed, self._row, self._decoder = target, row, decoder
        self._made: dict[int, PipelineExecutable] = {}
        pipeline = decoder.pipeline(row["pipeline"])
        module = Module()
        module.add(pipeline)
        super().__init__(module, pipeline.name, target)
        self.shape_params = row["shape_params"]

    def variant(self, lengths: Mapping[str, int]) -> PipelineExecutable:
        variant = _variant_for(self._row, lengths)
        made = self._made.get(id(variant))
        if made is None:
            made = self._made[id(variant)] = _PipelineVariant(self, variant, self._decoder)
        return made


class _PipelineVariant(_Packed, PipelineExecutable):
    """A pipeline of a pack after its passes."""

    def __init__(self, owner: PackedPipeline, variant: Row, decoder: Decoder) -> None:
        self.packed = owner.packed
        self._code: Mapping[str, str] = variant["code"]
        module = _declared(variant["programs"], owner.packed, decoder)
        module.add(decoder.pipeline(variant["pipeline"]))
        super().__init__(module, owner.name, owner.dispatcher, owner.syntax)
        self.signature = owner.signature

    def _code_for(self, lengths: Mapping[str, int]) -> Mapping[str, str]:
        return self._code


def _declared(rows: Sequence[Row], target: PackedTarget, decoder: Decoder) -> Module:
    """The programs that a function launches, as plans see them."""
    module = Module()
    for row in rows:
        program = decoder.program(row["declared"])
        program.body = decoder.body(row["lengths"])
        target.set_forms(program, row["whole_writes"])
        module.add(program)
    return module


def _with_code(call: CallPlan, keys: Mapping[str, str], target: PackedTarget) -> CallPlan:
    """A call whose launches are of the programs that the pack has code of; `keys`: their parts, by name."""

    def with_code(step: AnyStep) -> AnyStep:
        if isinstance(step, RepeatStep):
            return RepeatStep(step.times, list(map(with_code, step.steps)))
        if isinstance(step, LaunchStep):
            program = target.program(keys[step.program.name]).source
            return replace(step, program=program)
        return step

    return replace(call, plan=replace(call.plan, steps=list(map(with_code, call.plan.steps))))


def _variant_for(row: Row, lengths: Mapping[str, int]) -> Row:
    """The variant of a function for a call.  Raises BadInputs where the pack has none."""
    keys = row["extents"]
    for variant in row["variants"]:
        is_equal = all(lengths[one] == lengths[other] for one, other in variant["equal"])
        if is_equal and all(lengths[key] == length for key, length in variant["lengths"].items()):
            return variant  # type: ignore[no-any-return]
    packed = " or ".join(_shown(each["lengths"]) for each in row["variants"])
    raise BadInputs(
        f"{row['name']} is packed for {packed}, and this call has {_shown({key: lengths[key] for key in keys})}; "
        "pack it for these shapes, too"
    )


def _shown(lengths: Mapping[str, int]) -> str:
    return ", ".join(f"len({key.replace(',', ', ')}) = {length}" for key, length in lengths.items())
