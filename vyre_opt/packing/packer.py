"""`pack`: functions, compiled for some processors, in one file.

kernels, pipelines of Python     called in place, as they are
texts, files, modules            each of their pipelines and programs, called as what `vyre_opt.compile` returns
vyre_opt.kernels.softmax, ...    functions on arrays, for the shapes that are named
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..driver.compile import module_of
from ..driver.pass_pipeline import Passes
from ..execution.dispatcher import BadInputs
from ..ir.pipeline import Pipeline
from ..ir.program import Module, Program
from ..ir.tracebacks import public
from ..lang.functions import Kernel
from ..lang.pipelines import PipelineFunction
from ..lang.translated_function import TranslatedFunction
from ..lowering.nvptx.targets import GPUS
from ..pack_files.format import Pack, Part, pack_bytes
from ..packs.ir_data import Encoder, encoded_text, source_row
from ..packs.pack_target import ABI
from ..rewriting.cloning import copy_for
from .array_functions import PACKED, is_array_function, name_of
from .artifacts import Code
from .code import CpuCode
from .functions import FunctionPacker, Shapes
from .processors import LEVELS

__all__ = ["pack", "packed", "targets_of"]

CPU = "cpu"


@public
def pack(
    path: str | os.PathLike[str],
    functions: Iterable[Any],
    targets: str | Sequence[str] = CPU,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    *,
    passes: Passes = "default",
    opt: int = 3,
    cubins: bool | None = None,
) -> str:
    """Write a pack, and return its digest, which `trusted=` of `vyre_opt.packs.load` takes.

    `functions`: kernels and pipelines of Python; texts, paths and modules, whose pipelines and programs are packed.
    `targets`: "cpu" for all processors, or some of them ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"), and GPUs ("sm_90").
    `shapes`: by function, calls to have code of their own for: arrays by name, or in order, of which shapes and types alone count.
    `passes`: of texts; kernels and pipelines have their own.  `opt`: the level of LLVM's optimiser.
    `cubins`: whether GPUs get machine code beside PTX; left out, where this machine has ptxas or a driver of NVIDIA's.

    The same functions give the same bytes, with cubins by the same assembler.  Raises BadInputs for what cannot be packed, DiagnosticError for a text that is wrong.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise BadInputs("the path comes first: write vyre.pack(path, [kernel])")
    content = packed(functions, targets, shapes, passes=passes, opt=opt, cubins=cubins)
    _write(Path(path), content)
    return Pack(content, str(path)).digest


def packed(
    functions: Iterable[Any],
    targets: str | Sequence[str] = CPU,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    *,
    passes: Passes = "default",
    opt: int = 3,
    cubins: bool | None = None,
) -> bytes:
    """The file that `pack` writes."""
    if isinstance(functions, (TranslatedFunction, str)) or callable(functions):
        name = getattr(functions, "__name__", "kernel")
        raise BadInputs(
            f"the functions of a pack are a list: write [{name if name.isidentifier() else 'kernel'}]"
        )
    levels, gpus = targets_of(targets)
    wanted = _calls(shapes or {})
    codes = _codes(levels, gpus, opt, cubins)
    packer = FunctionPacker(Encoder(), codes)
    for function in functions:
        if is_array_function(function):
            name = name_of(function)
            packer.add_array_function(function, name, wanted.get(name, ()))
        elif isinstance(function, TranslatedFunction):
            _add_translated(packer, function, wanted)
        elif callable(function):
            name = getattr(function, "__name__", type(function).__name__)
            raise BadInputs(
                f"{name} is no function that is packed: kernels and pipelines of Python are, and of vyre_opt.kernels {', '.join(PACKED)}"
            )
        else:
            _add_module(packer, module_of(function), passes, wanted)
    unknown = sorted(wanted.keys() - packer.names)
    if unknown:
        raise BadInputs(
            f"shapes[{unknown[0]!r}] is of no function here; there are {', '.join(sorted(packer.names))}"
        )
    if not packer.names:
        raise BadInputs("there is nothing to pack: pass kernels, pipelines, texts or files")
    shared = {part.name: part for code in codes for part in code.shared_parts()}
    parts = [*packer.parts.values(), *shared.values(), *_source_parts(packer.encoder)]
    return pack_bytes(parts, {"abi": ABI, "made_by": f"vyre-opt {__version__}"})


def targets_of(targets: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """The processors and the GPUs.  Raises BadInputs."""
    named = targets.replace(",", " ").split() if isinstance(targets, str) else list(targets)
    levels = [
        level for name in named for level in (LEVELS if name == CPU else [name] if name in LEVELS else [])
    ]
    gpus = [name for name in named if name in GPUS]
    unknown = [name for name in named if name not in (CPU, *LEVELS, *GPUS)]
    if unknown or not named:
        known = f"{CPU}, {', '.join(LEVELS)}, and GPUs such as sm_90"
        raise BadInputs(
            f"{unknown[0]} is no target of a pack; they are {known}" if unknown else f"name a target: {known}"
        )
    return list(dict.fromkeys(levels)), list(dict.fromkeys(gpus))


def _codes(levels: Sequence[str], gpus: Sequence[str], opt: int, cubins: bool | None) -> list[Code]:
    codes: list[Code] = [CpuCode(levels, opt)] if levels else []
    if gpus:
        from .assembler import assembler
        from .gpu_code import GpuCode

        assembles = None if cubins is False else assembler()
        if cubins and assembles is None:
            raise BadInputs(
                "machine code for a GPU is made by ptxas, which is not on the PATH, or by a driver of NVIDIA's, which is not here; "
                "install one of them, or leave cubins= out: a pack has PTX for any driver"
            )
        codes += [GpuCode(name, assembles) for name in gpus]
    return codes


def _calls(shapes: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Arguments of calls by function."""
    for name, calls in shapes.items():
        if not isinstance(calls, (list, tuple)) or not all(
            isinstance(c, (list, tuple, Mapping)) for c in calls
        ):
            raise BadInputs(f"shapes[{name!r}] is a list of calls, each with its arrays in order or by name")
    return {name: list(calls) for name, calls in shapes.items()}


def _add_translated(
    packer: FunctionPacker, function: TranslatedFunction, wanted: Mapping[str, Shapes]
) -> None:
    name = function.function.__name__
    chosen = function.call_options
    parameters = inspect.signature(function.function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    if not all(type(value) in (bool, int, float) for value in defaults.values()):
        raise BadInputs(f"{name}: defaults of packed functions are numbers")
    assert isinstance(function, (Kernel, PipelineFunction))
    call = {"arguments": function.parameters, "defaults": defaults}
    packer.add(name, function.module, chosen.passes, wanted.get(name, ()), call)


def _add_module(packer: FunctionPacker, module: Module, passes: Passes, wanted: Mapping[str, Shapes]) -> None:
    call: dict[str, Any] = {"arguments": None, "defaults": {}}
    items: list[Pipeline | Program] = [*module.pipelines.values(), *module.programs.values()]
    for item in items:
        packer.add(item.name, copy_for(module, item), passes, wanted.get(item.name, ()), call)


def _source_parts(encoder: Encoder) -> list[Part]:
    return [
        Part(f"sources/{key}", "source", encoded_text(source), source_row(source))
        for key, source in encoder.sources.items()
    ]


def _write(path: Path, content: bytes) -> None:
    """Write beside the target and rename, so that no reader sees a half."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
