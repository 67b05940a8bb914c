"""The program of a seed: a pipeline of two to eight stages that has a pair of features, and its outputs by NumPy.

The pair of seed s is number s modulo their count, so that each comes equally often; the rest is random.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from .arithmetic import Array, Type, literal
from .extents import lengths_in, show
from .scene import Buf, Fill, HostRead, Kernel, Launch, Repeat, Scene, Stage, annotation
from .table import FEATURES, PAIRS
from .templates import TEMPLATES, Template

__all__ = ["Composed", "Observed", "compose", "pair_of"]

OF_THE_WHOLE = {"python", "repeat", "host read", "near 2^32 on paper"}
RELAUNCHES = ("other params", "other buffers")
TEXT_ONLY = {name for name, feature in FEATURES.items() if "python" in feature.excludes}


@dataclass(slots=True)
class Observed:
    """What a caller sees: (name, array) of host reads in order, then of outputs; and lines that were printed."""

    arrays: list[tuple[str, Array]]
    lines: list[str]


@dataclass(slots=True)
class Composed:
    """A program of the campaign.  `features`: by the name of each program, and of stages that are none."""

    seed: int
    pair: tuple[str, str]
    is_python: bool
    buffers: dict[str, Buf]
    stages: list[Stage]
    scalars: dict[str, tuple[Type, Any]]
    features: dict[str, set[str]]
    whole: set[str]
    paper: bool = False
    specs: dict[str, str] = field(default_factory=dict)

    @property
    def all_features(self) -> set[str]:
        return set().union(self.whole, *self.features.values())

    def inputs(self) -> dict[str, Array]:
        """An array for each buffer that a caller passes, outputs among them."""
        return {b.name: b.contents.copy() for b in self.buffers.values() if b.contents is not None}

    def lengths(self) -> dict[str, Any]:
        """Of buffers of the pipeline's own that are open."""
        return {
            b.name: b.shape[0] if len(b.shape) == 1 else b.shape
            for b in self.buffers.values()
            if b.kind == "own" and any(extent is None for extent in b.extents)
        }

    def params(self) -> dict[str, Any]:
        return {name: _number(ty, value) for name, (ty, value) in self.scalars.items()}

    def expected(self) -> Observed:
        """The oracle: the meanings of the stages, one after the other."""
        arrays = self.inputs()
        for b in self.buffers.values():
            if b.contents is None:
                arrays[b.name] = np.zeros(b.shape, b.ty.dtype)
        scalars = {name: value for name, (_, value) in self.scalars.items()}
        reads: list[tuple[str, Array]] = []
        lines: list[str] = []

        def run(stages: Sequence[Stage]) -> None:
            for stage in stages:
                if isinstance(stage, Launch):
                    lines.extend(stage.run(arrays, scalars))
                elif isinstance(stage, Kernel):
                    with np.errstate(all="ignore"):
                        stage.meaning(*(arrays[name] for name in stage.buffers))
                elif isinstance(stage, Fill):
                    arrays[stage.buffer][...] = stage.ty.dtype(stage.value)
                elif isinstance(stage, HostRead):
                    reads.append((f"host_read {stage.buffer}", arrays[stage.buffer].copy()))
                else:
                    for _ in range(stage.times):
                        run(stage.stages)

        run(self.stages)
        read_last = dict(reads)
        outputs = []
        for b in self.buffers.values():
            if b.kind in ("write", "both"):
                outputs.append((b.name, arrays[b.name]))
            elif f"host_read {b.name}" in read_last:
                outputs.append((b.name, read_last[f"host_read {b.name}"]))
        return Observed([*reads, *outputs], lines)

    # --- text

    @property
    def programs(self) -> list[Any]:
        programs = {
            id(stage.program): stage.program for stage in _walk(self.stages) if isinstance(stage, Launch)
        }
        return list(programs.values())

    def text(self) -> str:
        """The module as `.vyre` text."""
        parts = ["vyre 2\n", *(program.text() for program in self.programs)]
        lines = [_declaration(b, b.extents, b.kind) for b in self.buffers.values()]
        lines += [f"param @{name} : {ty}" for name, (ty, _) in self.scalars.items()]
        parts.append(_pipeline("main", [*lines, *_shown(self.stages, 0)]))
        if self.paper:
            parts.append(self._on_paper())
        return "\n".join(parts)

    def _on_paper(self) -> str:
        """The same launches over buffers of almost 2^32 elements."""
        stages = [
            stage
            for stage in _walk(self.stages)
            if isinstance(stage, Launch) and _is_open(stage, self.buffers)
        ]
        used = {name for stage in stages for name in stage.buffers}
        written: set[str] = set()
        given: set[str] = set()
        for stage in stages:
            given |= set(_read(stage)) - written
            written |= set(_written(stage))
        kinds = {"own": "live_in", "write": "both"}
        lines: list[str] = []
        sizes: dict[int, int] = {}
        for b in self.buffers.values():
            if b.name in used:
                size = b.shape[0]
                if size >= 16:
                    size = sizes.setdefault(size, (1 << 32) - (1 << 16) - 64 * len(sizes))
                kind = kinds.get(b.kind, b.kind) if b.name in given else b.kind
                lines.append(_declaration(b, (size,), kind))
        lines += [f"param @{name} : {ty}" for name, (ty, _) in self.scalars.items()]
        return _pipeline("paper", [*lines, *_shown(stages, 0)])

    def python(self) -> str:
        """The module as Python, with a pipeline `main`."""
        types = "bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64"
        head = (
            "from typing import Annotated\n\nimport vyre_opt as vyre\n"
            f"from vyre_opt.lang import Read, ReadWrite, Write, {types}\n\n\n"
        )
        words = {"read": "Read", "write": "Write", "both": "ReadWrite"}
        outside = [b for b in self.buffers.values() if b.kind != "own"]
        arguments = [f"{b.name}: {words[b.kind]}[{annotation(b.ty, b.extents)}]" for b in outside]
        arguments += [f"{name}: {ty}" for name, (ty, _) in self.scalars.items()]
        lines = []
        for b in self.buffers.values():
            if b.kind == "own":
                sizes = [
                    show(b.shape[at] if extent is None else extent, True)
                    for at, extent in enumerate(b.extents)
                ]
                size = sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"
                lines.append(f"    {b.name} = vyre.buffer({b.ty}, {size})")
        body = "\n".join([*lines, *_shown_python(self.stages, 1)])
        programs = "".join(f"{program.python()}\n" for program in self.programs)
        return f"{head}{programs}@vyre.pipeline\ndef main({', '.join(arguments)}):\n{body}\n"

    def source(self) -> str:
        return self.python() if self.is_python else self.text()

    def pipeline(self) -> Any:
        """The Python pipeline."""
        text = self.python()
        filename = f"<features {self.seed}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        namespace: dict[str, Any] = {"__name__": "features"}
        exec(compile(text, filename, "exec"), namespace)
        return namespace["main"]

    def arguments(self, arrays: Mapping[str, Array]) -> list[Any]:
        """Of a call of the Python pipeline."""
        outside = [arrays[b.name] for b in self.buffers.values() if b.kind != "own"]
        return [*outside, *self.params().values()]


def _number(ty: Type, value: Any) -> Any:
    if ty.name == "bf16":
        return float(literal(value, ty))
    return bool(value) if ty.name == "bool" else float(value) if ty.is_float else int(value)


def _declaration(b: Buf, extents: Sequence[Any], kind: str) -> str:
    sizes = ", ".join("?" if extent is None else show(extent, False) for extent in extents)
    flags = {
        "read": " read",
        "live_in": " live_in",
        "write": " write live_out",
        "both": " live_in live_out",
        "own": "",
    }
    return f"buffer @{b.name} : {b.ty}[{sizes}]{flags[kind]}"


def _pipeline(name: str, lines: Iterable[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"pipeline @{name} {{\n{body}\n}}\n"


def _shown(stages: Sequence[Stage], depth: int) -> list[str]:
    lines = []
    for stage in stages:
        if isinstance(stage, Repeat):
            lines += [
                f"repeat {stage.times} {{",
                *(f"  {line}" for line in _shown(stage.stages, depth + 1)),
                "}",
            ]
        else:
            lines.append(stage.show(False))
    return lines


def _shown_python(stages: Sequence[Stage], depth: int) -> list[str]:
    lines, indent = [], "    " * depth
    for stage in stages:
        if isinstance(stage, Repeat):
            lines += [f"{indent}for _ in range({stage.times}):", *_shown_python(stage.stages, depth + 1)]
        else:
            lines.append(indent + stage.show(True))
    return lines


def _walk(stages: Sequence[Stage]) -> Iterable[Stage]:
    for stage in stages:
        yield stage
        if isinstance(stage, Repeat):
            yield from _walk(stage.stages)


def _is_open(stage: Launch, buffers: Mapping[str, Buf]) -> bool:
    """Whether a launch may be over buffers of any length."""
    return all(
        len(formal.extents) == 1 and formal.extents[0] is None and not formal.is_pinned
        for formal in stage.program.formals
    ) and not any(isinstance(extent, int) and extent > 1 for extent in stage.program.grid)


# --- composing


def pair_of(seed: int) -> tuple[str, str]:
    return PAIRS[seed % len(PAIRS)]


def compose(seed: int) -> Composed:
    """The program of a seed.  One that lacks a feature of its pair is drawn again, a few times."""
    pair = pair_of(seed)
    composed = None
    for attempt in range(6):
        composed = _compose(seed, random.Random(f"{seed} {attempt}"), pair)
        if composed is not None and set(pair) <= composed.all_features:
            return composed
    while composed is None:
        attempt += 1
        composed = _compose(seed, random.Random(f"{seed} {attempt}"), pair)
    return composed


def _compose(seed: int, rng: random.Random, pair: tuple[str, str]) -> Composed | None:
    is_python = "python" in pair or (not TEXT_ONLY & set(pair) and rng.random() < 0.25)
    scene = Scene(rng, is_python)
    wanted = [feature for feature in pair if feature not in OF_THE_WHOLE]
    count = rng.choice((2, 2, 3, 3, 4, 5, 6, 8))
    for wants in _wants(rng, wanted, count):
        if not _stage(scene, wants):
            return None
        if rng.random() < 0.08:
            _again(scene, rng.choice((1, 2, 4)))
    whole = {"python"} if is_python else set()
    stages = _around(scene, set(pair), whole)
    _live_out(scene)
    paper = not is_python and ("near 2^32 on paper" in pair or rng.random() < 0.1)
    buffers = _needed(scene)
    composed = Composed(seed, pair, is_python, buffers, stages, scene.scalars, scene.features, whole, paper)
    for program in composed.programs:
        composed.specs |= program.specs
    if paper:
        composed.paper = "launch" in composed._on_paper()
        if composed.paper:
            whole.add("near 2^32 on paper")
    return composed


def _wants(rng: random.Random, wanted: list[str], count: int) -> list[set[str]]:
    """The features that each stage shall have: those of the pair in one stage, or in two that follow each other."""
    stages: list[set[str]] = [set() for _ in range(count)]
    features = rng.sample(wanted, len(wanted))
    if len(features) == 2 and rng.random() < 0.4 and _templates(set(features)):
        stages[rng.randrange(count)] = set(features)
        return stages
    first = rng.randrange(max(1, count - len(features) + 1))
    for at, feature in enumerate(features):
        if feature in RELAUNCHES:
            first = max(first, 1)
        stages[min(first + at, count - 1)].add(feature)
    return stages


def _templates(wants: set[str]) -> list[Template]:
    return [each for each in TEMPLATES.values() if wants <= each.offers]


def _stage(scene: Scene, wants: set[str]) -> bool:
    """Append a stage that has features, if it can."""
    rng = scene.rng
    for _ in range(8):
        scene.want, scene.used = set(wants), set()
        again = [feature for feature in RELAUNCHES if feature in wants]
        if not again and not wants and rng.random() < 0.15:
            again = [rng.choice(RELAUNCHES)]
        if again:
            if scene.relaunch(again[0]):
                return True
            if wants:
                scene.want = {"literal param"}
                TEMPLATES["map"].make(scene)
            continue
        choices = _templates(wants) or _templates({rng.choice(sorted(wants))})
        if not choices:
            return False
        weights = [each.weight * (4 if scene.is_calm and each.name == "map" else 1) for each in choices]
        chosen = rng.choices(choices, weights)[0]
        if wants and rng.random() < 0.5:
            chosen = rng.choice(choices)
        if chosen.make(scene):
            return True
    return False


def _again(scene: Scene, count: int) -> None:
    """Launch programs again, with other params and buffers."""
    for _ in range(count):
        scene.want, scene.used = set(), set()
        scene.relaunch(scene.rng.choice(RELAUNCHES))


def _around(scene: Scene, pair: set[str], whole: set[str]) -> list[Stage]:
    """The stages, some of them in a repeat, and host reads between them."""
    rng, stages = scene.rng, list(scene.stages)
    if "host read" in pair or rng.random() < 0.06:
        at = rng.randrange(1, len(stages) + 1)
        written = [
            name for stage in stages[:at] for name in _written(stage) if scene.buffers[name].is_defined
        ]
        if written:
            stages.insert(at, HostRead(rng.choice(written)))
            whole.add("host read")
    if "repeat" in pair or rng.random() < 0.12:
        first = rng.randrange(len(stages))
        last = rng.randrange(first, len(stages)) + 1
        stages[first:last] = [Repeat(rng.choice((2, 2, 3)), stages[first:last])]
        whole.add("repeat")
    return stages


def _written(stage: Stage) -> list[str]:
    if isinstance(stage, Launch):
        pairs = zip(stage.program.formals, stage.buffers, strict=True)
        return [name for formal, name in pairs if formal.access != "read"]
    if isinstance(stage, Fill):
        return [stage.buffer]
    return [stage.buffers[-1]] if isinstance(stage, Kernel) else []


def _read(stage: Stage) -> list[str]:
    if isinstance(stage, Launch):
        pairs = zip(stage.program.formals, stage.buffers, strict=True)
        return [name for formal, name in pairs if formal.access != "write"]
    return list(stage.buffers[:-1]) if isinstance(stage, Kernel) else []


def _live_out(scene: Scene) -> None:
    """Make outputs of what nobody reads, and note which programs write an output that a later stage reads."""
    read = {name for stage in scene.stages for name in _read(stage)}
    for b in scene.buffers.values():
        if b.kind == "own" and b.name not in read:
            b.kind = "write"
            b.contents = np.zeros(b.shape, b.ty.dtype)
            is_fixed = prod(b.shape) > 0 and scene.rng.random() < scene.fixed
            if is_fixed or scene.is_python or scene.rng.random() < 0.5:
                b.extents = tuple(
                    extent if isinstance(extent, int) else number if is_fixed else None
                    for extent, number in zip(b.extents, b.shape, strict=True)
                )
    for at, stage in enumerate(scene.stages):
        later = {name for after in scene.stages[at + 1 :] for name in _read(after)}
        outputs = [name for name in _written(stage) if scene.buffers[name].kind in ("write", "both")]
        if any(name in later for name in outputs):
            assert isinstance(stage, (Launch, Kernel, Fill))
            scene.features[stage.key].add("live_out")


def _needed(scene: Scene) -> dict[str, Buf]:
    """The buffers that stages use, and those whose lengths they are sized by."""
    names = {name for stage in scene.stages for name in [*_read(stage), *_written(stage)]}
    for b in reversed(list(scene.buffers.values())):
        if b.name in names:
            for extent in b.extents:
                if extent is not None:
                    names |= lengths_in(extent)
    return {name: b for name, b in scene.buffers.items() if name in names}
