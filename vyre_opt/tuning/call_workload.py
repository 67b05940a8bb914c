"""A call of any program or pipeline as a workload: how its launches are joined, and at which level LLVM optimises.

    cut_2     1 if launch 2, counted from 0, is not joined with those before it; the proofs would allow it
    threshold of fusion_pressure, in elements per link: chains of a higher one are not joined at all
    halo      when a launch recomputes elements that it reads of its neighbours (see launch_fusion)
    tile      0 if what is handed over within a workgroup stays in storage
    level     of LLVM's optimiser

Chains differ in their pressure, so a threshold parts the most strongly tied ones first.  Where it says what cuts would say, it
alone says so.  A value of halo or tile that gives the program of the default, or of a single cut, is left out.  What is measured is a call as a user makes it, the
host's work included.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..driver.compile import compile, compile_module, module_of
from ..driver.pipeline import PipelineExecutable
from ..driver.program import ProgramExecutable
from ..execution.dispatcher import BadInputs, Dispatcher
from ..execution.target import as_target
from ..fusion.group_legality import HALOS
from ..fusion.pressure import should_fuse_chain
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Module, Program
from ..passes.manager import PassManager, Remark
from ..passes.pipeline_text import DEFAULT, DEFAULT_PIPELINE, format_pipeline
from ..passes.registry import Pass, make_pass
from ..rewriting.cloning import copy_for
from ..syntax.fingerprint import fingerprint
from .call import Call
from .runner import on_host
from .shape_class import size_class
from .space import Config, Space
from .workload import close

__all__ = ["CallWorkload", "call_workload", "passes_of"]

Array = np.ndarray[Any, Any]
AnyExecutable: TypeAlias = ProgramExecutable | PipelineExecutable

MAX_CUTS = 12
"""Most cuts to choose from: of more joined launches, the choices are the cuts that move most bytes."""
NO_LIMIT = 1 << 32
"""A threshold that no chain is above: ranks are u32 numbers."""
DEFAULTS: dict[str, Any] = {"threshold": "default", "halo": "cheap", "tile": 1}
"""`default`: without fusion_pressure, which is no pass of the default pipeline."""
LEVELS = {"cpu": (3, 2, 1), "cuda": (2, 3, 1)}
"""Levels of each target, the default first."""
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
        settings = "".join(f" {name}={value}" for name, value in options.items() if value)
        return f"{kind} @{self.entry}({sizes}){settings}"

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
        return Space(self._factors, constraints=[self._says_it_once])

    @cached_property
    def _factors(self) -> dict[str, Sequence[Any]]:
        factors: dict[str, Sequence[Any]] = {f"cut_{number}": (0, 1) for number in self.cuts}
        fingerprints = {self._fingerprint({}), *(self._fingerprint({name: 1}) for name in factors)}
        factors["threshold"] = tuple(self.thresholds)
        for name, values in (("halo", HALOS), ("tile", (0, 1))):
            distinct = [
                v for v in values if v != DEFAULTS[name] and self._fingerprint({name: v}) not in fingerprints
            ]
            factors[name] = (DEFAULTS[name], *distinct)
        if self.dispatcher.name in LEVELS:
            factors["level"] = LEVELS[self.dispatcher.name]
        return {name: values for name, values in factors.items() if len(values) > 1}

    def _says_it_once(self, at: Mapping[str, Array]) -> Array:
        """Whether a configuration has no cut where the threshold parts, and does not cut all that the next threshold parts."""
        legal = np.array(True)
        cut = {number: at[f"cut_{number}"] == 1 for number in self.cuts}
        for threshold, parted in self.thresholds.items():
            for number in parted & set(cut):
                legal = legal & ~((at["threshold"] == threshold) & cut[number])
        for (threshold, parted), (_, more) in pairwise(self.thresholds.items()):
            if more - parted <= set(cut):
                cuts_all = np.all([cut[number] for number in more - parted], axis=0)
                legal = legal & ~((at["threshold"] == threshold) & cuts_all)
        return legal

    def default(self, target: str) -> Config:
        return {name: values[0] for name, values in self._factors.items()}

    def prior(self, space: Space, target: str) -> Array:
        """Seconds that each configuration is expected to take, by bytes that go through memory and by launches.

        The bytes that a cut moves are the note of fusion_pressure there."""
        for name, values in space.factors.items():
            if not set(values) <= set(self._factors.get(name, ())):
                raise BadInputs(f"the call has no choice {name} of {', '.join(map(repr, values))}")
        at = {
            name: np.array(values, object)[column]
            for (name, values), column in zip(space.factors.items(), space.rows.T, strict=True)
        }
        traffic, launches = np.full(len(space), float(max(1, self._own_bytes))), np.ones(len(space))
        threshold = at.get("threshold", np.array(DEFAULTS["threshold"], object))
        for number, second in self._joined.items():
            is_cut: Array = at.get(f"cut_{number}", np.array(0)) == 1
            for value, parted in self.thresholds.items():
                if number in parted:
                    is_cut = is_cut | (threshold == value)
            traffic += np.where(is_cut, _bytes_of(second), 0)
            launches += is_cut
        if "tile" in at:
            traffic += (at["tile"] == 0) * float(sum(map(_bytes_of, self._joined.values())))
        bandwidth, launch = SPEEDS[target if target in SPEEDS else "cpu"]
        return traffic / bandwidth + launches * launch

    @cached_property
    def cuts(self) -> dict[int, int]:
        """Launches that may be joined with those before them, and the bytes that a cut before each would move."""
        sizes = {number: _bytes_of(launch) for number, launch in self._joined.items()}
        costliest = sorted(sizes, key=lambda number: -sizes[number])[:MAX_CUTS]
        return {number: sizes[number] for number in sorted(costliest)}

    @cached_property
    def thresholds(self) -> dict[float | str, frozenset[int]]:
        """Thresholds of fusion_pressure, each with the launches that it parts from those before them, fewest first.

        One for each number of chains that are parted: the least that joins all others, and one below all.
        """
        vetoed = (k for k in self._joined if self._launches[k].notes.get("fuse") is False)
        parts: dict[float | str, frozenset[int]] = {DEFAULTS["threshold"]: frozenset(vetoed)}
        pressures = self._pressures
        least = min(pressures.values(), default=NO_LIMIT)
        for threshold in (NO_LIMIT, *pressures.values(), least // 2 or 0.5):
            parted = frozenset(number for number, pressure in pressures.items() if pressure > threshold)
            if parted not in parts.values():
                parts[threshold] = parted
        return dict(sorted(parts.items(), key=lambda part: len(part[1])))

    @cached_property
    def _pressures(self) -> dict[int, int]:
        """Least threshold of whole elements that joins the chain of each launch that may be joined."""
        pressures: dict[int, int] = {}
        for has_rank, chain in groupby(
            range(len(self._launches)), lambda k: "rank" in self._launches[k].notes
        ):
            numbers = list(chain)
            if has_rank and not self._joined.keys().isdisjoint(numbers):
                ranks = [int(self._launches[k].notes["rank"]) for k in numbers]
                least = bisect_left(range(NO_LIMIT), True, lo=1, key=lambda t: should_fuse_chain(ranks, t))
                pressures |= {k: least for k in numbers if k in self._joined}
        return pressures

    @cached_property
    def _joined(self) -> dict[int, Launch]:
        """The launches that would be joined with those before them if no threshold parted them."""
        return {
            number: self._launches[number]
            for remark in self._after(passes_of({"threshold": NO_LIMIT}))[1]
            if remark.certificate.get("claim") == "join"
            for number in remark.certificate["at"][1:]
        }

    @cached_property
    def _launches(self) -> list[Launch]:
        """The launches before any is joined, with the notes of fusion_pressure."""
        names = DEFAULT_PIPELINE[: DEFAULT_PIPELINE.index("launch_fusion")]
        module, _ = self._after(",".join([*names, "fusion_pressure"]))
        pipeline = module.pipelines.get(self.entry)
        return [] if pipeline is None else [stage for stage in pipeline.walk() if isinstance(stage, Launch)]

    @cached_property
    def _own_bytes(self) -> int:
        """Bytes of the arrays of the call."""
        arrays = self.inputs.values() if isinstance(self.inputs, Mapping) else self.inputs
        return sum(int(getattr(array, "nbytes", 0)) for array in arrays)

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
            if value not in self._factors.get(name, ()):
                raise BadInputs(f"{name}={value!r} is no choice of {self.name}")
        return self._compiled(self.dispatcher_of(config), f"specialize,{passes_of(config)}")

    def dispatcher_of(self, config: Mapping[str, Any]) -> Dispatcher:
        """Executable of the call, at the level of a configuration."""
        level = config.get("level")
        return self.dispatcher if level is None else as_target(self.dispatcher).at_level(level)

    def call(self, config: Mapping[str, Any]) -> Callable[[], list[Any]]:
        """A call of that, which returns its outputs."""
        executable = self.executable(config)
        return lambda: list(self._outputs(executable).values())

    def check(self) -> None:
        _ = self.expected

    def fault(self, outputs: Sequence[Array]) -> str:
        """Difference of the outputs from those of the program as written; "" without one."""
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
    threshold, halo, tile = (config.get(name, value) for name, value in DEFAULTS.items())
    if halo != DEFAULTS["halo"]:
        options["halo"] = halo
    is_limited = threshold != DEFAULTS["threshold"]
    if not options and not is_limited and tile:
        return DEFAULT
    passes: list[Pass] = []
    for name in DEFAULT_PIPELINE:
        if name == "launch_fusion" and is_limited:
            passes.append(make_pass("fusion_pressure", {"threshold": repr(threshold)}))
        if tile or name != "decode_scan_fuse":
            passes.append(make_pass(name, options if name == "launch_fusion" else None))
    return format_pipeline(passes)


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


def _bytes_of(launch: Launch) -> int:
    """The bytes that go through memory if it is not joined with the one before."""
    return int(launch.notes.get("bytes", launch.notes.get("least_bytes", 0)))


def _shape(array: Any) -> str:
    return f"{_dtype(array)}[{', '.join(map(str, getattr(array, 'shape', (_count(array),))))}]"


def _dtype(array: Any) -> str:
    return str(getattr(array, "dtype", "uint8")).removeprefix("torch.")


def _count(array: Any) -> int:
    return prod(array.shape) if hasattr(array, "shape") else len(array)
