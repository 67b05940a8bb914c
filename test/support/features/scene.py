"""A pipeline that grows stage by stage: its buffers, programs and launches, each with its meaning in NumPy.

A `Scene` draws types, sizes and bindings for the templates (`templates.py`).  Features that a stage must have are in
`want`; a template asks `flag(feature, chance)` wherever it can have one, and so learns whether it shall.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from .arithmetic import TYPES, Array, Type, constant, is_exact_cast, literal, random_values
from .extents import Extent, rename, show
from .sources import PythonSource, Source, TextSource
from .table import excluded

__all__ = [
    "Buf",
    "Fill",
    "Formal",
    "HostRead",
    "Kernel",
    "Launch",
    "Param",
    "Program",
    "Repeat",
    "Scene",
    "Stage",
]

Arrays = dict[str, Array]
Meaning = Callable[[Arrays, dict[str, Any]], list[str]]
"""Changes arrays of a launch in place, by the names of the program's buffers; gives the lines that it prints."""


@dataclass(slots=True)
class Buf:
    """A buffer of the pipeline.  `extents`: its declaration, None for `?`.  `kind`: read, live_in, write, both or own.

    `is_defined`: whether all elements have been written.  `is_private`: contents that other stages cannot use, such as
    a permutation.
    """

    name: str
    ty: Type
    shape: tuple[int, ...]
    extents: tuple[Extent | None, ...]
    kind: str
    contents: Array | None
    is_defined: bool
    is_private: bool = False

    @property
    def is_fixed(self) -> bool:
        return all(isinstance(extent, int) for extent in self.extents)


@dataclass(slots=True)
class Formal:
    """A buffer of a program.  `access`: read, write, read_write, or transient: read_write without live_in and live_out.

    `is_pinned`: for one buffer of the pipeline only.
    """

    name: str
    ty: Type
    extents: tuple[int | None, ...]
    access: str
    is_pinned: bool = False


@dataclass(slots=True)
class Param:
    """A runtime scalar.  `values`: all that it may be, None for any number.  `default`: None if it has none."""

    name: str
    ty: Type
    values: Sequence[Any] | None
    default: Any = None
    alias: str = ""
    """The type parameter that is its type, as it is written."""


@dataclass(slots=True)
class Program:
    name: str
    formals: list[Formal]
    params: list[Param]
    source: Source
    workgroup: tuple[int, ...]
    grid: tuple[Extent, ...]
    meaning: Meaning
    features: set[str]
    cluster: int = 0
    elements: int = 0
    """Elements that a workgroup writes; 0 if that varies."""
    is_whole: bool = True
    """Whether it writes all elements of what it writes."""
    specs: dict[str, str] = field(default_factory=dict)
    """Values of specs and type parameters, other than their defaults."""
    alias: str = ""
    """The type parameter that is the type of `@y`."""

    def text(self) -> str:
        source = self.source
        lines = [line for line in source.header if line.startswith("spec")]
        for at, formal in enumerate(self.formals):
            extents = ", ".join("?" if extent is None else str(extent) for extent in formal.extents)
            words = {"read_write": "read_write live_in live_out", "transient": "read_write"}
            access = words.get(formal.access, formal.access)
            word, _, flags = access.partition(" ")
            ty = self.alias if self.alias and formal.name == "y" else formal.ty
            lines.append(f"buffer @{formal.name} : {ty}[{extents}] {word} binding({at}) {flags}".rstrip())
        lines += [line for line in source.header if not line.startswith("spec")]
        for param in self.params:
            default = "" if param.default is None else f" = {literal(param.default, param.ty)}"
            lines.append(f"param @{param.name} : {param.alias or param.ty}{default}")
        cluster = f" cluster({self.cluster})" if self.cluster else ""
        sizes = ", ".join(map(str, self.workgroup))
        body = "\n".join([*(f"  {line}" for line in lines), *source.lines])
        functions = "".join(source.functions)
        return f"{functions}program @{self.name} workgroup({sizes}){cluster} {{\n{body}\n}}\n"

    def python(self) -> str:
        arguments = [f"{param.name}: {param.ty}" for param in self.params]
        words = {"read": "Read", "write": "Write", "read_write": "ReadWrite"}
        arguments += [f"{f.name}: {words[f.access]}[{annotation(f.ty, f.extents)}]" for f in self.formals]
        cluster = f", cluster={self.cluster}" if self.cluster else ""
        sizes = str(self.workgroup[0]) if len(self.workgroup) == 1 else str(self.workgroup)
        head = f"@vyre.program(workgroup={sizes}{cluster})\ndef {self.name}({', '.join(arguments)}):\n"
        return "".join(self.source.functions) + head + "\n".join(self.source.lines) + "\n\n"


def annotation(ty: Type, extents: Sequence[Extent | None]) -> str:
    """The element type and extents of an array argument; sizes that are computed are open there."""
    if len(extents) == 1 and extents[0] is None:
        return ty.name
    parts = ", ".join(str(extent) if isinstance(extent, int) else ":" for extent in extents)
    return f"Annotated[bool, {parts.replace(':', 'slice(None)')}]" if ty.name == "bool" else f"{ty}[{parts}]"


@dataclass(slots=True)
class Launch:
    """`params`: for each, ("literal", number) or ("scalar", name); one that is left out has its default."""

    program: Program
    buffers: tuple[str, ...]
    params: dict[str, tuple[str, Any]]

    @property
    def key(self) -> str:
        """The name of its features in `Scene.features`."""
        return self.program.name

    def show(self, is_python: bool) -> str:
        names = dict(zip([f.name for f in self.program.formals], self.buffers, strict=True))
        grid = ", ".join(show(rename(extent, names), is_python) for extent in self.program.grid)
        types = {param.name: param.ty for param in self.program.params}
        given = {
            name: literal(number, types[name]) if kind == "literal" else number
            for name, (kind, number) in self.params.items()
        }
        if is_python:
            numbers = [
                {"true": "True", "false": "False"}.get(given[param.name], given[param.name])
                for param in self.program.params
            ]
            return f"{self.program.name}[{grid}]({', '.join([*numbers, *self.buffers])})"
        scalars = {
            name: f"@{text}" if self.params[name][0] == "scalar" else text for name, text in given.items()
        }
        params = ", ".join(f"@{name} = {text}" for name, text in scalars.items())
        buffers = ", ".join(f"@{name}" for name in self.buffers)
        return f"launch @{self.program.name} grid({grid}) ({buffers})" + (
            f" params({params})" if params else ""
        )

    def run(self, arrays: Arrays, scalars: Mapping[str, Any]) -> list[str]:
        program = self.program
        own = {f.name: arrays[name] for f, name in zip(program.formals, self.buffers, strict=True)}
        numbers = {}
        for param in program.params:
            kind, number = self.params.get(param.name, ("literal", param.default))
            numbers[param.name] = param.ty.dtype(scalars[number] if kind == "scalar" else number)
        with np.errstate(all="ignore"):
            return program.meaning(own, numbers)


@dataclass(slots=True)
class Kernel:
    """A named kernel; `meaning` changes the last of its arrays."""

    name: str
    buffers: tuple[str, ...]
    meaning: Callable[..., None]

    @property
    def key(self) -> str:
        return self.name.replace(".", "_")

    def show(self, is_python: bool) -> str:
        if is_python:
            return f"vyre.{self.name}({', '.join(self.buffers)})"
        return f"{self.name}({', '.join(f'@{name}' for name in self.buffers)})"


@dataclass(slots=True)
class Fill:
    """A stage that sets all elements of a buffer to a number."""

    buffer: str
    ty: Type
    value: Any
    number: int

    @property
    def key(self) -> str:
        return f"fill{self.number}"

    def show(self, is_python: bool) -> str:
        text = literal(self.value, self.ty)
        if is_python:
            return f"vyre.fill({self.buffer}, {text.title() if self.ty.name == 'bool' else text})"
        return f"fill(@{self.buffer}, {text})"


@dataclass(slots=True)
class HostRead:
    buffer: str

    def show(self, is_python: bool) -> str:
        return f"vyre.host_read({self.buffer})" if is_python else f"host_read @{self.buffer}"


@dataclass(slots=True)
class Repeat:
    times: int
    stages: list[Stage]


Stage = Launch | Kernel | Fill | HostRead | Repeat

LENGTHS = (64, 128, 128, 192, 256, 256, 320, 512, 100, 96, 70, 33, 257, 129, 77, 32, 16)
LANES = (32, 64, 64, 64, 128)
PLANES = ((8, 32), (16, 16), (7, 33), (32, 8), (5, 64), (1, 64), (16, 32), (3, 3))
CUBES = ((2, 8, 16), (3, 5, 9), (4, 4, 16), (1, 7, 8), (2, 16, 8))


@dataclass(slots=True)
class Scene:
    rng: random.Random
    is_python: bool
    want: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    """Features of the stage that is being written."""
    buffers: dict[str, Buf] = field(default_factory=dict)
    programs: list[Program] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    scalars: dict[str, tuple[Type, Any]] = field(default_factory=dict)
    features: dict[str, set[str]] = field(default_factory=dict)
    """By the name of a program, and of a stage that is none."""
    whole: set[str] = field(default_factory=set)
    """Features of the pipeline as a whole."""
    last: Buf | None = None
    base: int = 0
    """The length that most buffers have."""
    lanes: int = 64
    last_elements: int = 0
    is_calm: bool = False
    """Whether what is not wanted is mostly plain: one length, one workgroup, no conditions."""
    fixed: float = 0.5
    """The share of buffers of fixed sizes."""
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Of most buffers of two and three dimensions."""
    workgroups: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.base = self.rng.choice(LENGTHS)
        self.is_calm = self.rng.random() < 0.6
        self.fixed = self.rng.choice((0.0, 0.0, 0.5, 1.0, 1.0, 1.0))
        self.shapes = {2: self.rng.choice(PLANES), 3: self.rng.choice(CUBES)}
        self.workgroups = {
            2: self.rng.choice(((8, 8), (16, 4), (32, 2), (16, 16))),
            3: self.rng.choice(((8, 4, 2), (16, 2, 2), (4, 4, 4))),
        }
        self.lanes = self.rng.choice(LANES)

    # --- drawing

    def flag(self, feature: str, chance: float = 0.0) -> bool:
        """Whether the stage shall have a feature here; it has it then."""
        if self.is_python and excluded(feature, "python"):
            return False
        if self.is_calm and chance < 1:
            chance *= 0.3
        if feature in self.want or self.rng.random() < chance:
            self.used.add(feature)
            return True
        return False

    def random(self) -> np.random.Generator:
        return np.random.default_rng(self.rng.randrange(1 << 40))

    def source(self) -> Source:
        return (PythonSource if self.is_python else TextSource)(self.rng)

    def type(self, allowed: Callable[[Type], bool] = lambda t: True) -> Type:
        """An element type; one of a feature that is wanted, if there is such."""
        types = [t for t in TYPES.values() if allowed(t)]
        wanted = [t for t in types if t.feature in self.want and t.feature]
        plain = [t for t in types if not t.feature]
        return self.rng.choice(wanted or (plain if plain and self.rng.random() < 0.6 else types))

    def note(self, *buffers: Buf) -> None:
        """Add the features that a stage has by its buffers."""
        for buf in buffers:
            if buf.ty.feature:
                self.used.add(buf.ty.feature)
            if len(buf.shape) > 1:
                self.used.add("two dimensions" if len(buf.shape) == 2 else "three dimensions")
            size = prod(buf.shape)
            if size == 0:
                self.used.add("length 0")
            if size == 1:
                self.used.add("length 1")
            if size > 1 and size % 2:
                self.used.add("odd length")
            if any(isinstance(extent, tuple) for extent in buf.extents):
                self.used.add("computed size")
            if buf.kind == "live_in":
                self.used.add("live_in")

    # --- buffers

    def new_name(self, prefix: str) -> str:
        return f"{prefix}{len(self.buffers)}"

    def shape(self, dimensions: int) -> tuple[int, ...]:
        rng = self.rng
        if "length 0" in self.want:
            return (*(rng.choice((2, 3)) for _ in range(dimensions - 1)), 0)
        if "length 1" in self.want:
            return (1,) * dimensions
        if "odd length" in self.want:
            return {1: (rng.choice((33, 77, 129, 257, 65, 255)),), 2: (7, 33), 3: (3, 5, 9)}[dimensions]
        if dimensions == 1:
            length = (
                self.base
                if rng.random() < (0.98 if self.is_calm else 0.9)
                else rng.choice((*LENGTHS, 1, 0, 2, 5))
            )
            return (length,)
        others = PLANES if dimensions == 2 else CUBES
        return self.shapes[dimensions] if rng.random() < 0.85 else rng.choice(others)

    def dimensions(self) -> int:
        for feature, count in (("two dimensions", 2), ("three dimensions", 3)):
            if feature in self.want:
                return count
        return self.rng.choices((1, 2, 3), (0.97, 0.02, 0.01) if self.is_calm else (0.8, 0.15, 0.05))[0]

    def _suits_wants(self, buf: Buf) -> bool:
        size, want = prod(buf.shape), self.want
        return not (
            ("length 0" in want and size)
            or ("length 1" in want and size != 1)
            or ("odd length" in want and (size < 2 or size % 2 == 0))
            or ("fixed size" in want and not buf.is_fixed)
            or ("two dimensions" in want and len(buf.shape) != 2)
            or ("three dimensions" in want and len(buf.shape) != 3)
            or ("live_in" in want and buf.kind != "live_in")
        )

    def input(
        self,
        ty: Type,
        shape: tuple[int, ...],
        contents: Array | None = None,
        kind: str = "read",
        *,
        is_private: bool = False,
    ) -> Buf:
        """A new buffer with contents from the caller."""
        name = self.new_name("x")
        if kind == "read" and contents is None and self.flag("live_in", 0.1):
            kind = "live_in"
        elif kind == "read" and contents is None and self.rng.random() < 0.15:
            kind = "both"
        array = random_values(ty, shape, self.random()) if contents is None else contents
        extents = self.declared(shape)
        buf = self.buffers[name] = Buf(name, ty, shape, extents, kind, array, True, is_private)
        return buf

    def declared(self, shape: tuple[int, ...]) -> tuple[int | None, ...]:
        """Fixed or open extents; a pipeline has no fixed extents of 0."""
        is_fixed = ("fixed size" in self.want or self.rng.random() < self.fixed) and prod(shape) > 0
        if len(shape) > 1 and not is_fixed and self.rng.random() < 0.3 and shape[-1]:
            return (*(None for _ in shape[1:]), shape[-1])
        return shape if is_fixed else (None,) * len(shape)

    def reading(
        self,
        allowed: Callable[[Type], bool] = lambda t: True,
        fits: Callable[[tuple[int, ...]], bool] | None = None,
    ) -> Buf:
        """A buffer to read: mostly that which the stage before wrote."""
        candidates = [
            b
            for b in self.buffers.values()
            if b.is_defined
            and not b.is_private
            and allowed(b.ty)
            and self._suits_wants(b)
            and (fits is None or fits(b.shape))
        ]
        if self.last in candidates and self.rng.random() < 0.88:
            return self.last
        if candidates and self.rng.random() < 0.8:
            return self.rng.choice(candidates)
        shape = self.shape(self.dimensions())
        for _ in range(20):
            if fits is None or fits(shape):
                break
            shape = self.shape(self.dimensions())
        else:
            shape = (128,)
        return self.input(self.type(allowed), shape)

    def writing(
        self,
        ty: Type,
        shape: tuple[int, ...],
        extents: tuple[Extent | None, ...] | None = None,
        *,
        avoid: Sequence[Buf] = (),
        is_whole: bool = True,
    ) -> Buf:
        """A buffer to write: a new one, or one that exists; if not all of it is written, one with contents."""
        rng = self.rng
        candidates = [
            b
            for b in self.buffers.values()
            if b.kind != "read"
            and not b.is_private
            and b.ty is ty
            and b.shape == shape
            and all(b is not other for other in avoid)
            and (is_whole or b.is_defined)
            and ("computed size" not in self.want or any(isinstance(extent, tuple) for extent in b.extents))
            and ("live_in" not in self.want or b.kind == "live_in")
            and ("fixed size" not in self.want or b.is_fixed)
        ]
        if candidates and rng.random() < (0.35 if is_whole else 0.8):
            return rng.choice(candidates)
        name = self.new_name("m")
        if not is_whole or self.flag("live_in"):
            kind = "live_in" if self.flag("live_in", 0.3) else "both"
            contents = random_values(ty, shape, self.random())
            buf = Buf(name, ty, shape, self.declared(shape), kind, contents, True)
        else:
            is_output = "live_out" in self.want or rng.random() < 0.1 or (extents is None and not prod(shape))
            own: tuple[Extent | None, ...] = self.declared(shape)
            if (
                extents is not None
                and not is_output
                and ("computed size" in self.want or rng.random() < 0.85 - 0.45 * self.fixed)
            ):
                own = extents
            if is_output:
                buf = Buf(name, ty, shape, own, "write", random_values(ty, shape, self.random()), False)
            else:
                if self.is_python and any(extent is None for extent in own):
                    own = shape if extents is None else extents
                buf = Buf(name, ty, shape, own, "own", None, False)
        self.buffers[name] = buf
        return buf

    def like(self, buf: Buf) -> tuple[Extent | None, ...]:
        """The extents of a buffer of the same size as another, as expressions of its lengths."""
        count = len(buf.shape)
        return tuple(("len", buf.name, axis, count) for axis in range(count))

    def formal(self, name: str, buf: Buf, access: str, *, is_pinned: bool = False) -> Formal:
        """A program's buffer for a buffer of the pipeline: fixed extents, where that has them, or open ones."""
        is_fixed = buf.is_fixed and ("fixed size" in self.want or self.rng.random() < 0.5 + self.fixed / 2)
        if "open size" in self.want:
            is_fixed = False
        extents: tuple[int | None, ...] = tuple(buf.shape) if is_fixed else (None,) * len(buf.shape)
        self.used.add("fixed size" if is_fixed else "open size")
        return Formal(name, buf.ty, extents, access, is_pinned)

    # --- params

    def param(self, program_params: list[Param], ty: Type, values: Sequence[Any] | None) -> Param:
        name = f"k{len(program_params)}"
        has_default = not self.is_python and ("default param" in self.want or self.rng.random() < 0.3)
        param = Param(name, ty, values, self._number(ty, values) if has_default else None)
        program_params.append(param)
        return param

    def wants_param(self, chance: float) -> bool:
        wants = {"literal param", "scalar param", "default param", "other params"} & self.want
        return bool(wants) or self.rng.random() < chance

    def _number(self, ty: Type, values: Sequence[Any] | None) -> Any:
        return constant(ty, self.rng) if values is None else self.rng.choice(values)

    def _bound(self, param: Param) -> tuple[str, Any] | None:
        """What a launch passes; None leaves the param to its default."""
        rng, want = self.rng, self.want
        modes = ["literal param", "scalar param", *(["default param"] if param.default is not None else [])]
        mode = rng.choice([m for m in modes if m in want] or modes)
        self.used.add(mode)
        if mode == "default param":
            return None
        if mode == "literal param":
            return "literal", self._number(param.ty, param.values)
        known = [
            name
            for name, (ty, number) in self.scalars.items()
            if ty is param.ty and (param.values is None or number in param.values)
        ]
        if known and rng.random() < 0.6:
            return "scalar", rng.choice(known)
        name = f"s{len(self.scalars)}"
        self.scalars[name] = (param.ty, self._number(param.ty, param.values))
        return "scalar", name

    # --- stages

    def launch(
        self,
        source: Source,
        bound: Sequence[tuple[Formal, Buf]],
        params: list[Param],
        workgroup: tuple[int, ...],
        grid: tuple[Extent, ...],
        meaning: Meaning,
        *,
        writes: Buf | None,
        is_whole: bool = True,
        elements: int = 0,
        cluster: int = 0,
        **more: Any,
    ) -> Program:
        """Append a new program and its launch.  `writes`: the buffer of which all elements are defined after it."""
        name = f"p{len(self.programs)}"
        formals = [formal for formal, _ in bound]
        if elements and self.last_elements and elements != self.last_elements:
            self.used.add("other grid")
        self.last_elements = elements or self.last_elements
        program = Program(
            name,
            formals,
            params,
            source,
            workgroup,
            grid,
            meaning,
            set(),
            cluster,
            elements,
            is_whole,
            **more,
        )
        self.programs.append(program)
        self.append(program, [buf for _, buf in bound], writes)
        return program

    def append(self, program: Program, bufs: Sequence[Buf], writes: Buf | None) -> None:
        """Append a launch of a program."""
        given = {param.name: bound for param in program.params if (bound := self._bound(param)) is not None}
        self.note(*bufs)
        self.stages.append(Launch(program, tuple(buf.name for buf in bufs), given))
        self.features.setdefault(program.name, set()).update(self.used)
        if writes is not None:
            writes.is_defined = True
            self.last = writes

    def relaunch(self, feature: str) -> bool:
        """Launch a program again, with other params or buffers; whether there was one that fits."""
        launches = [stage for stage in self.stages if isinstance(stage, Launch)]
        if feature == "other params":
            launches = [stage for stage in launches if stage.program.params]
        if not launches:
            return False
        old = self.rng.choice(launches)
        program, bufs = old.program, []
        moves = feature == "other buffers" or self.rng.random() < 0.5
        for formal, name in zip(program.formals, old.buffers, strict=True):
            before = self.buffers[name]
            same = [
                b
                for b in self.buffers.values()
                if b.ty is before.ty
                and b.shape == before.shape
                and not b.is_private
                and self._fits(formal, b)
            ]
            if formal.is_pinned or not moves:
                bufs.append(before)
            elif formal.access == "read":
                readable = [b for b in same if b.is_defined]
                bufs.append(self.last if self.last in readable else self.rng.choice(readable or [before]))
            else:
                is_whole = program.is_whole and formal.access == "write"
                writable = [
                    b for b in same if b.kind != "read" and (b.is_defined or is_whole) and b is not before
                ]
                is_new = not writable or self.rng.random() < 0.5
                bufs.append(self._another(before, is_whole) if is_new else self.rng.choice(writable))
        written = [b for f, b in zip(program.formals, bufs, strict=True) if f.access != "read"]
        if any(sum(b is other for other in bufs) > 1 for b in written):
            return False
        if feature == "other buffers" and tuple(b.name for b in bufs) == old.buffers:
            return False
        self.used |= {feature}
        self.append(program, bufs, None)
        stage = self.stages[-1]
        assert isinstance(stage, Launch)
        if feature == "other params" and stage.params == old.params:
            self.features[program.name].discard(feature)
        for formal, buf in zip(program.formals, bufs, strict=True):
            if formal.access in ("write", "read_write"):
                buf.is_defined = True
                self.last = buf
        return True

    def _fits(self, formal: Formal, buf: Buf) -> bool:
        return all(e is None or e == own for e, own in zip(formal.extents, buf.extents, strict=True))

    def _another(self, before: Buf, is_whole: bool) -> Buf:
        """A new buffer of the size of another."""
        name = self.new_name("m")
        if is_whole:
            is_open = self.is_python and any(extent is None for extent in before.extents)
            extents = self.like(before) if is_open else before.extents
            buf = Buf(name, before.ty, before.shape, extents, "own", None, False)
        else:
            contents = random_values(before.ty, before.shape, self.random())
            extents = before.shape if before.is_fixed else (None,) * len(before.shape)
            buf = Buf(name, before.ty, before.shape, extents, "both", contents, True)
        self.buffers[name] = buf
        return buf

    def convertible(self, source: Type) -> Callable[[Type], bool]:
        return lambda target: is_exact_cast(source, target)
