"""A call of any program or pipeline as a workload: how its launches are joined, and at which level LLVM optimises.

    cut_2     1 if launch 2, counted from 0, is not joined with those before it; the proofs would allow it
    halo      when a launch computes again what it reads of its neighbours (see launch_fusion)
    tile      0 if what is handed over within a workgroup stays in storage
    level     of LLVM's optimiser

A value of halo or tile that gives the program of the default, or of a single cut, is left out.  What is measured is a call as a user makes it, the
host's work included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..driver.compile import compile, compile_module, module_of
from ..driver.pipeline import PipelineExecutable
from ..driver.program import ProgramExecutable
from ..fusion.group_legality import HALOS
from ..ir.copies import copy_for
from ..ir.fingerprint import fingerprint
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Module, Program
from ..passes.manager import PassManager, Remark
from ..passes.pipeline_text import DEFAULT, DEFAULT_PIPELINE
from ..passes.registry import make_pass
from ..runtime.dispatcher import BadInputs, Dispatcher
from .call import Call
from .runner import on_host
from .shape_class import size_class
from .space import Config, Space
from .workload import close

__all__ = ["CallWorkload", "call_workload", "passes_of"]

Array = np.ndarray[Any, Any]
AnyExecutable = ProgramExecutable | PipelineExecutable

MAX_CUTS = 12
"""Of more launches that are joined, those where a cut would move most bytes are choices."""
DEFAULTS: dict[str, Any] = {"halo": "cheap", "tile": 1}
LEVELS = {"cpu": (3, 2, 1), "cuda": (2, 3, 1)}
"""By target, the default first."""
SPEEDS = {"cpu": (1e10, 2e-6), "cuda": (2e12, 3e-6)}
"""Bytes a second and seconds a launch, for what to expect before anything is measured."""


@dataclass(frozen=True, eq=False)
class CallWorkload(Call):
    """`module`: as written; `entry`: the program or pipeline in it.  The others are arguments of a call, see `call_workload`."""

    module: Module
    entry: str
    inputs: Any
    backend: Dispatcher
    grid: Any
    lengths: Mapping[str, Any] | None
    params: Mapping[str, Any] | None
    specs: Mapping[str, Any]

    @cached_property
    def name(self) -> str:
        kind = "pipeline" if self.entry in self.module.pipelines else "program"
        arrays = self.inputs.items() if isinstance(self.inputs, Mapping) else enumerate(self.inputs)
        sizes = ", ".join(f"{name}: {_shape(array)}" for name, array in arrays)
        options = {"grid": self.grid, "lengths": self.lengths, "params": self.params, "specs": self.specs}
        chosen = "".join(f" {name}={value}" for name, value in options.items() if value)
        return f"{kind} @{self.entry}({sizes}){chosen}"

    @cached_property
    def family(self) -> str:
        return f"@{self.entry} of {fingerprint(copy_for(self.module, self._owner)).hex()}"

    @cached_property
    def shape(self) -> str:
        arrays = self.inputs.items() if isinstance(self.inputs, Mapping) else enumerate(self.inputs)
        sizes = [f"{name} {_dtype(array)} {size_class(_count(array))}" for name, array in arrays]
        lengths = [f"{name} {size_class(int(length))}" for name, length in (self.lengths or {}).items()]
        options = {"grid": self.grid, "params": self.params, "specs": self.specs}
        return ", ".join([*sizes, *lengths, *(f"{name} {value}" for name, value in options.items() if value)])

    @property
    def dispatcher(self) -> Dispatcher:
        return self.backend

    # --- the space

    def space(self, target: str) -> Space:
        return self._space

    @cached_property
    def _space(self) -> Space:
        factors: dict[str, Sequence[Any]] = {f"cut_{number}": (0, 1) for number in self.cuts}
        known = {fingerprint(self._fused[0]), *(self._fingerprint({name: 1}) for name in factors)}
        for name, values in (("halo", HALOS), ("tile", (0, 1))):
            others = [v for v in values if v != DEFAULTS[name] and self._fingerprint({name: v}) not in known]
            if others:
                factors[name] = (DEFAULTS[name], *others)
        if self.dispatcher.name in LEVELS:
            factors["level"] = LEVELS[self.dispatcher.name]
        return Space(factors)

    def default(self, target: str) -> Config:
        return {name: levels[0] for name, levels in self._space.factors.items()}

    def prior(self, space: Space, target: str) -> Array:
        """Seconds that each configuration is expected to take, by bytes that go through memory and by launches.

        The bytes that a cut moves are those that fusion_pressure notes there."""
        for name, values in space.factors.items():
            if not set(values) <= set(self._space.factors.get(name, ())):
                raise BadInputs(f"the call has no choice {name} of {', '.join(map(repr, values))}")
        at = {
            name: np.array(space.factors[name])[column]
            for name, column in zip(space.factors, space.rows.T, strict=True)
        }
        moved, launches = np.full(len(space), float(max(1, self._own_bytes))), np.ones(len(space))
        for number, size in self.cuts.items():
            if f"cut_{number}" in at:  # the caller's space may lack it
                moved += at[f"cut_{number}"] * float(size)
                launches += at[f"cut_{number}"]
        if "tile" in at:
            moved += (1 - at["tile"]) * float(sum(self.cuts.values()))
        bandwidth, launch = SPEEDS[target if target in SPEEDS else "cpu"]
        return moved / bandwidth + launches * launch

    @cached_property
    def cuts(self) -> dict[int, int]:
        """The launches that the default joins with those before them, and the bytes that a cut before each would move."""
        joined = [
            number
            for remark in self._fused[1]
            if remark.certificate.get("claim") == "join"
            for number in remark.certificate["at"][1:]
        ]
        most = sorted(joined, key=lambda number: -self._bytes[number])[:MAX_CUTS]
        return {number: self._bytes[number] for number in sorted(most)}

    @cached_property
    def _bytes(self) -> list[int]:
        """Of each launch, the bytes that go through memory if it is not joined with the one before."""
        names = DEFAULT_PIPELINE[: DEFAULT_PIPELINE.index("launch_fusion")]
        module, _ = self._after(",".join([*names, "fusion_pressure"]))
        launches = [stage for stage in module.pipelines[self.entry].walk() if isinstance(stage, Launch)]
        return [int(each.notes.get("bytes", each.notes.get("least_bytes", 0))) for each in launches]

    @cached_property
    def _own_bytes(self) -> int:
        """Of the arrays of the call."""
        arrays = self.inputs.values() if isinstance(self.inputs, Mapping) else self.inputs
        return sum(int(getattr(array, "nbytes", 0)) for array in arrays)

    @cached_property
    def _fused(self) -> tuple[Module, Sequence[Remark]]:
        return self._after(DEFAULT)

    def _fingerprint(self, config: Config) -> bytes:
        return fingerprint(self._after(passes_of(config))[0])

    def _after(self, passes: str) -> tuple[Module, Sequence[Remark]]:
        """The module after passes, and their remarks."""
        plain = self._compiled(self.dispatcher, "specialize")
        result = PassManager(passes, target=plain.schedules_for).run(plain.module)
        return plain.module, result.remarks

    # --- measuring

    def executable(self, config: Mapping[str, Any]) -> AnyExecutable:
        """The program or pipeline compiled as a configuration says, which is called as any other.

        Raises BadInputs for a choice that the call does not have.
        """
        for name, value in config.items():
            if value not in self._space.factors.get(name, ()):
                raise BadInputs(f"{name}={value!r} is no choice of {self.name}")
        return self._compiled(self.dispatcher_of(config), f"specialize,{passes_of(config)}")

    def dispatcher_of(self, config: Mapping[str, Any]) -> Dispatcher:
        """That of the call, at the level of a configuration."""
        at_level = getattr(self.dispatcher, "at_level", None)
        level = config.get("level")
        return self.dispatcher if level is None or at_level is None else at_level(level)

    def call(self, config: Mapping[str, Any]) -> Callable[[], list[Any]]:
        """A call of that, which returns its outputs."""
        executable = self.executable(config)
        return lambda: list(self._outputs(executable).values())

    def check(self) -> None:
        _ = self.expected

    def fault(self, outputs: Sequence[Array]) -> str:
        """How the outputs differ from those of the program as it is written; "" if they do not."""
        for (name, expected), output in zip(self.expected.items(), outputs, strict=True):
            if expected.shape == output.shape and expected.tobytes() == output.tobytes():
                continue
            dtype = self._owner.buffers[name].dtype.element
            fault = close(output.reshape(-1), expected.reshape(-1), dtype)
            if fault or not dtype.is_float:
                return f"@{name}: {fault or 'other bits'}"
        return ""

    @cached_property
    def expected(self) -> dict[str, Array]:
        """The outputs without passes."""
        outputs = self._outputs(self._compiled(self.dispatcher, None))
        self.wait()
        return {name: on_host(array) for name, array in outputs.items()}

    def _compiled(self, backend: Dispatcher, passes: str | None) -> AnyExecutable:
        return compile_module(self.module, self.entry, backend, self.specs, passes)

    def _outputs(self, executable: AnyExecutable) -> Mapping[str, Any]:
        return executable(self.inputs, self.grid, lengths=self.lengths, params=self.params)

    @property
    def _owner(self) -> Program | Pipeline:
        return self.module.pipelines.get(self.entry) or self.module.programs[self.entry]


def passes_of(config: Mapping[str, Any]) -> str:
    """The pipeline of passes that does what a configuration says, as text."""
    cut = "+".join(
        name.removeprefix("cut_") for name, is_cut in config.items() if name.startswith("cut_") and is_cut
    )
    options = {"cut": cut} if cut else {}
    if config.get("halo", DEFAULTS["halo"]) != DEFAULTS["halo"]:
        options["halo"] = config["halo"]
    has_tiles = bool(config.get("tile", DEFAULTS["tile"]))
    if not options and has_tiles:
        return DEFAULT
    return ",".join(
        str(make_pass(name, options if name == "launch_fusion" else None))
        for name in DEFAULT_PIPELINE
        if has_tiles or name != "decode_scan_fuse"
    )


def call_workload(
    source: str | Path | Module | Program,
    inputs: Any,
    *,
    grid: Any = None,
    entry: str | None = None,
    target: str | Dispatcher = "cpu",
    specs: Mapping[str, Any] | None = None,
    lengths: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> CallWorkload:
    """A call `vyre_opt.run(source, inputs, ...)` as what `autotune` tunes; the arguments are those of `run`.

    `source`: also a function that `@program` or `@pipeline` made.

    Raises DiagnosticError for a program that is wrong, BadInputs for arguments that do not fit it.
    """
    function = getattr(source, "function", None)
    if function is not None and hasattr(source, "module"):
        source, entry = source.module, entry or function.__name__
    executable = compile(source, entry=entry, target=target, specs=specs)
    workload = CallWorkload(
        module_of(source),
        executable.name,
        inputs,
        executable.dispatcher,
        grid,
        lengths,
        params,
        dict(specs or {}),
    )
    executable.arguments(inputs, lengths or {}, executable.param_words(params))
    return workload


def _shape(array: Any) -> str:
    return f"{_dtype(array)}[{', '.join(map(str, getattr(array, 'shape', (_count(array),))))}]"


def _dtype(array: Any) -> str:
    return str(getattr(array, "dtype", "uint8")).removeprefix("torch.")


def _count(array: Any) -> int:
    return prod(array.shape) if hasattr(array, "shape") else len(array)
