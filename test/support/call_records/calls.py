"""Calls that are drawn: each is right at first, and most then get a mistake, another layout or another library.

A call is JSON, see values.py for its arguments:

    {"of": "kernels.softmax", "args": [...], "named": {...}}
    {"of": "program.saxpy", "options": {"target": "cpu"}, "args": [grid, ...], "named": {...}}
    {"of": "compile.scale", "options": {...}, "args": [inputs, grid], "named": {"lengths": ...}}
    {"of": "scan.scan", "options": {"patterns": [...]}, "args": [data]}

`options` make what is called, once; `stream`: whether a GPU's arrays are on another stream than the default one.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from .kernels import PIPELINES, PROGRAMS
from .texts import TEXTS
from .values import LAYOUTS

__all__ = ["SUBJECTS", "TARGETS", "Call", "drawn_calls", "kind_of"]

Call = dict[str, Any]
TARGETS = ("ref", "cpu", "cuda")
SIZES = (0, 1, 2, 3, 5, 8, 16, 31, 33, 64, 70)
FLOATS = ("small", "small", "nan", "inf", "huge", "zeros")


def drawn_calls(
    seed: int, count: int, targets: Sequence[str] = TARGETS, torch: bool = False, is_real: bool = False
) -> Iterator[Call]:
    """Calls of a seed; subjects take turns.  `torch`: whether arrays may be of torch; `is_real`: on a real GPU."""
    names = list(SUBJECTS)
    for number in range(count):
        draw = _Draw(random.Random(f"{seed} {number}"), targets, torch, is_real)
        yield draw.call(names[number % len(names)])


def kind_of(call: Call) -> str:
    """What is called, on which target: `kernels.softmax on cpu`."""
    target = _target_of(call)
    return str(call["of"]) + (f" on {target}" if target else "")


def _target_of(call: Call) -> str:
    said = call.get("options", {}).get("target") or call.get("named", {}).get("dispatcher")
    if isinstance(said, dict):
        said = said.get("dispatcher")
    on_gpu = any(leaf.get("in") in ("gpu", "interface") for leaf in _leaves(call["args"]))
    return said if isinstance(said, str) else "cuda" if on_gpu else "cpu"


class _Draw:
    """One call.  `on_gpu`: whether its arrays are on the GPU."""

    def __init__(self, rng: random.Random, targets: Sequence[str], torch: bool, is_real: bool) -> None:
        self.rng, self.torch, self.is_real = rng, torch, is_real
        self.target = rng.choice(list(targets))
        self.on_gpu = self.target == "cuda" and rng.random() < 0.8
        self.library = "gpu" if self.on_gpu else "torch" if torch and rng.random() < 0.3 else "numpy"

    def call(self, subject: str) -> Call:
        call = SUBJECTS[subject](self)
        call["of"] = subject
        self._choose_target(call)
        if self.on_gpu and self.rng.random() < 0.2:
            call["stream"] = 1
        for _ in range(self.rng.choice((0, 0, 1, 1, 1, 2))):
            self.rng.choice(_CHANGES)(self, call)
        return call

    def _choose_target(self, call: Call) -> None:
        """The target by its name or as an object, or left out where the arrays decide."""
        way = call["of"].partition(".")[0]
        if way == "scan":
            return
        is_default = self.target == ("cuda" if self.on_gpu else "cpu")
        if is_default and way in ("kernels", "program", "pipeline") and self.rng.random() < 0.6:
            return
        is_object = self.rng.random() < 0.2
        target: Any = {"dispatcher": self.target} if is_object else self.target
        if way == "kernels":
            call.setdefault("named", {})["dispatcher"] = target
        else:
            call.setdefault("options", {})["target"] = target

    # --- parts

    def one_of(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def size(self) -> int:
        return self.rng.choice(SIZES)

    def array(self, kind: str, *shape: int, of: str | None = None) -> dict[str, Any]:
        """Of `bf16` the bits."""
        stored = {"bf16": "uint16"}.get(kind, kind)
        about: dict[str, Any] = {"array": stored, "shape": list(shape), "seed": self.rng.randrange(1000)}
        if self.library != "numpy":
            about["in"] = self.library
        values = of or (self.one_of(*FLOATS) if stored.startswith("f") else self.one_of("small", "wide"))
        if values != "small":
            about["of"] = values
        return about

    def text(self, data: bytes) -> dict[str, Any]:
        kinds = ("gpu",) if self.on_gpu else ("bytes", "bytes", "str", "bytearray", "memoryview", "numpy")
        return {"bytes": data.hex(), "in": self.one_of(*kinds)}

    def number(self) -> Any:
        choices = (
            2,
            0.5,
            -3.25,
            1,
            0,
            {"number": ["float32", 1.5]},
            {"float": "nan"},
            {"float": "inf"},
            1e39,
        )
        return self.one_of(*choices, {"array": "float32", "shape": [], "seed": 1})

    def grid(self, *extents: int) -> Any:
        """Workgroups, or a few more."""
        more = [each + self.one_of(0, 0, 1) for each in extents]
        return more[0] if len(more) == 1 else {"tuple": more}

    def named(self, **values: Any) -> Call:
        return {"named": {name: value for name, value in values.items() if value is not None}}

    def out(self, kind: str, *shape: int) -> Any:
        """None, or an array for the result."""
        return self.array(kind, *shape) if self.rng.random() < 0.3 else None


def _floats(draw: _Draw) -> tuple[str, str | None]:
    """The type of an array of floats, and `dtype=` for it."""
    kind = draw.one_of("float32", "float32", "float32", "float16", "bf16")
    return kind, "bf16" if kind == "bf16" else None


# --- kernels.*


def _softmax(draw: _Draw) -> Call:
    kind, dtype = _floats(draw)
    shape = draw.one_of((draw.size(),), (3, draw.size()), (2, 2, draw.size()), ())
    return {"args": [draw.array(kind, *shape)], **draw.named(dtype=dtype, out=draw.out(kind, *shape))}


def _softmax_step(draw: _Draw) -> Call:
    kind, shape = draw.one_of("uint32", "uint32", "int32", "uint8", "int64"), (draw.size(),)
    return {"args": [draw.array(kind, *shape)], **draw.named(out=draw.out("uint32", *shape))}


def _prefix_scan(draw: _Draw) -> Call:
    kind = draw.one_of("uint32", "int32", "float32", "uint64", "int64", "float64")
    shape = draw.one_of((draw.size(),), (draw.one_of(200, 700),), (3, draw.size()))
    return {"args": [draw.array(kind, *shape)], **draw.named(out=draw.out(kind, *shape))}


def _matvec_fixed(draw: _Draw) -> Call:
    rows, columns, kind = draw.size(), draw.size() + 1, draw.one_of("int32", "uint32")
    matrix = draw.array(kind, *draw.one_of((rows, columns), (rows * columns,)))
    return {"args": [matrix, draw.array(kind, columns)], **draw.named(out=draw.out(kind, rows))}


def _matmul(draw: _Draw) -> Call:
    kind, dtype = _floats(draw)
    if draw.target == "cuda" and not draw.is_real:  # a GPU in main memory has no matrix units
        kind, dtype = "float32", None
    if draw.rng.random() < 0.2:
        kind, dtype = "float64", None
    stack = draw.one_of((), (), (2,), (2, 0))
    rows, depth, columns = draw.one_of(0, 1, 3, 17), draw.one_of(1, 4, 9), draw.one_of(1, 5, 16)
    args = [draw.array(kind, *stack, rows, depth), draw.array(kind, depth, columns)]
    if draw.rng.random() < 0.4:
        args.append(draw.array(kind, columns))
    result = draw.one_of(None, None, "f32")
    out = draw.out("float32" if result else kind, *stack, rows, columns)
    activation = draw.one_of(None, None, "relu", "gelu", "silu", "none")
    return {"args": args, **draw.named(activation=activation, dtype=dtype, result=result, out=out)}


def _contract_step(draw: _Draw) -> Call:
    rows, columns, kind = draw.size() + 1, draw.size(), draw.one_of("float32", "int32", "uint32")
    vectors = draw.one_of((), (), (3,))
    kind = "float32" if vectors else kind
    args = [draw.array(kind, *vectors, rows), draw.array(kind, rows, columns)]
    return {"args": args, **draw.named(out=draw.out(kind, *vectors, columns))}


def _chain(draw: _Draw) -> Call:
    kind = draw.one_of("float32", "int32", "uint32")
    ranks = [draw.one_of(1, 4, 7, 16) for _ in range(draw.one_of(1, 2, 3, 4))]
    cores = [draw.array(kind, *pair) for pair in pairwise(ranks)]
    return {"args": [draw.array(kind, ranks[0]), cores], **draw.named(out=draw.out(kind, ranks[-1]))}


def _prepared_chain(draw: _Draw) -> Call:
    call = _chain(draw)
    call["args"].reverse()
    if draw.rng.random() < 0.4:
        vector = call["args"][1]
        vector["shape"].insert(0, draw.one_of(0, 1, 3))
        call["named"].pop("out", None)
    return call


def _cores(draw: _Draw) -> tuple[list[Any], int, str]:
    kind, p, q, rank = draw.one_of("float32", "float32", "bf16"), (2, 3, 4), (2, 2, 3), draw.one_of(1, 4)
    count = draw.one_of(2, 3)
    ranks = [1, *[rank] * (count - 1), 1]
    cores = [draw.array(kind, p[k], ranks[k], q[k], ranks[k + 1], of="small") for k in range(count)]
    return cores, 6 if count == 2 else 24, kind


def _embedding(draw: _Draw) -> Call:
    cores, rows, kind = _cores(draw)
    below = str(rows if draw.rng.random() < 0.8 else rows + 1)
    index = draw.array(draw.one_of("int64", "uint32", "int32", "uint8"), draw.size(), of=below)
    return {"args": [cores, index], **draw.named(dtype="bf16" if kind == "bf16" else None)}


def _base64(draw: _Draw) -> Call:
    data = draw.one_of(b"", b"dnlyZQ==", b"dnlyZQ", b"dnly", b"d n!", b"=", b"dnly" * 30)
    return {"args": [draw.text(data)]}


def _hex(draw: _Draw) -> Call:
    return {"args": [draw.text(draw.one_of(b"", b"76797265", b"7679726", b"7", b"zz", b"7679" * 50))]}


def _decode_scan(draw: _Draw) -> Call:
    encoding = draw.one_of("base64", "hex", "raw")
    data = {"base64": b"dnlyZQ==", "hex": b"76797265" * 5, "raw": b"vyre and vyre"}[encoding]
    patterns = draw.one_of(["yr"], [{"bytes": b"yr".hex()}, "re"], [], ["v", ""], "yr")
    return {"args": [draw.text(data), patterns, encoding]}


# --- kernels and pipelines in Python


def _rows(size: int, lanes: int = 32) -> int:
    return -(-size // lanes)


def _saxpy(draw: _Draw) -> Call:
    n = draw.size()
    arrays = [draw.array("float32", n), draw.array("float32", n)]
    return {"args": [draw.grid(_rows(n, 64)), draw.number(), *arrays]}


def _one_to_one(read: str, written: str) -> Callable[[_Draw], Call]:
    def call(draw: _Draw) -> Call:
        n = draw.size()
        return {"args": [draw.grid(_rows(n)), draw.array(read, n), draw.array(written, n)]}

    return call


def _transpose(draw: _Draw) -> Call:
    rows, columns = draw.size() % 20, draw.size() % 20
    arrays = [draw.array("float32", rows, columns), draw.array("float32", columns, rows)]
    return {"args": [draw.grid(_rows(columns, 8), _rows(rows, 8)), *arrays]}


def _narrow(draw: _Draw) -> Call:
    n = draw.size() % 20
    arrays = [draw.array("int32", n, 4), draw.array("int32", n, 4)]
    return {"args": [draw.grid(_rows(n, 4), 1), draw.one_of(2, -1, 2**31, 1.5, True), *arrays]}


def _volume(draw: _Draw) -> Call:
    shape = [draw.one_of(0, 1, 2, 3) for _ in range(3)]
    return {"args": [draw.grid(1, 2, 2), draw.array("uint16", *shape), draw.array("uint16", *shape)]}


def _alone(draw: _Draw) -> Call:
    first = draw.one_of(0, 7, 2**32 - 1, 2**32, -1, {"number": ["uint32", 9]})
    return {"args": [draw.one_of(None, None, 2, 3), first, draw.array("uint32", draw.size())]}


def _integers(draw: _Draw) -> Call:
    bits = (8, 8, 16, 16, 32, 32, 64, 64)
    args: list[Any] = [draw.one_of(1, 100, (1 << (b - 1)) - 1) for b in bits]
    if draw.rng.random() < 0.5:
        place = draw.rng.randrange(8)
        args[place] = draw.one_of(-1, 1 << bits[place], -(1 << (bits[place] - 1)), True, 1.0, "1")
    return {"args": [1, *args, draw.array("int64", 1)]}


def _others(draw: _Draw) -> Call:
    flag = draw.one_of(True, False, True, 1, {"number": ["bool_", True]})
    return {"args": [1, *(draw.number() for _ in range(4)), flag, draw.array("float64", 1)]}


def _tally(draw: _Draw) -> Call:
    n = draw.size()
    return {
        "args": [draw.grid(_rows(n)), draw.array("uint8", n), draw.array("uint32", draw.one_of(1, 4, 16))]
    }


def _stepped(draw: _Draw) -> Call:
    n = draw.size()
    return {"args": [draw.grid(_rows(n, 8)), draw.one_of(1, 3, 0, -2), draw.array("float64", n)]}


def _scaled(draw: _Draw) -> Call:
    call = _one_to_one("float32", "float32")(draw)
    call["args"].insert(1, draw.number())
    return call


def _floats_of_one_size(count: int, has_number: bool = False) -> Callable[[_Draw], Call]:
    def call(draw: _Draw) -> Call:
        n = draw.size()
        return {"args": [draw.number()] * has_number + [draw.array("float32", n) for _ in range(count)]}

    return call


def _counted(draw: _Draw) -> Call:
    return {"args": [draw.array("uint8", draw.size(), of="hex"), draw.array("uint32", draw.one_of(1, 4))]}


def _prefixes(draw: _Draw) -> Call:
    n = draw.size()
    args = [draw.one_of(n, 0, 1, n + 40), draw.array("float32", n), draw.array("float32", n)]
    return {"args": args}


def _sheets(draw: _Draw) -> Call:
    shape = draw.size() % 20, draw.size() % 20
    return {"args": [draw.array("float32", *shape), draw.array("float32", *shape)]}


# --- programs and pipelines of text: compile, run and dispatch


def _inputs(draw: _Draw, **arrays: Any) -> Any:
    """By name or in order."""
    return {"dict": arrays} if draw.rng.random() < 0.5 else list(arrays.values())


def _lengths(draw: _Draw, **lengths: int) -> Any:
    return {"dict": lengths}


def _of_scale(draw: _Draw) -> Call:
    n = draw.size()
    arrays = {"x": draw.array("float32", n)}
    call: Call = {}
    if draw.rng.random() < 0.5:
        arrays["y"] = draw.array("float32", n)
    else:
        call = draw.named(lengths=_lengths(draw, y=n))
    options: Any = draw.one_of({}, {}, {"passes": "canonicalize,dce"}, {"passes": "nonsense"})
    specs = draw.one_of(None, {"factor": 3}, {"factor": "0.5"}, {"factor": "x"}, {"other": 1})
    options = {**options, **({"specs": {"dict": specs}} if specs else {})}
    return {"args": [_inputs(draw, **arrays), draw.grid(_rows(n))], "options": options, **call}


def _of_saxpy(draw: _Draw) -> Call:
    n = draw.size()
    arrays = _inputs(draw, x=draw.array("float32", n), y=draw.array("float32", n))
    params = draw.one_of({"alpha": draw.number()}, {"alpha": 2, "n": n}, {}, {"alpha": 1, "m": 2})
    return {"args": [arrays, draw.grid(_rows(n))], **draw.named(params={"dict": params})}


def _of_fixed(draw: _Draw) -> Call:
    arrays = _inputs(draw, x=draw.array("uint32", draw.one_of(16, 16, 16, 15)))
    return {"args": [arrays, draw.one_of(None, None, 2, 1)]}


def _of_quads(draw: _Draw) -> Call:
    n = draw.size()
    arrays = _inputs(draw, x=draw.array("float32", *draw.one_of((n, 4), (4 * n,), (n,))))
    return {"args": [arrays, draw.grid(_rows(n, 8))], **draw.named(lengths=_lengths(draw, y=n))}


def _of_decay(draw: _Draw) -> Call:
    n = draw.size()
    arrays = {"x": draw.array("float32", n)}
    lengths = {"t": n, "sums": n}
    if draw.rng.random() < 0.3:
        arrays["sums"] = draw.array("float32", lengths.pop("sums"))
    options: Any = draw.one_of({}, {}, {"passes": "default"}, {"entry": "main"}, {"entry": "halve"})
    call = {"args": [_inputs(draw, **arrays)], "options": options}
    return {**call, **draw.named(lengths=_lengths(draw, **lengths))}


def _of_sized(draw: _Draw) -> Call:
    n = draw.size()
    params = {"dict": draw.one_of({"count": n}, {"count": n}, {"count": -1}, {"count": n + 64}, {})}
    call = {"args": [_inputs(draw, x=draw.array("float32", n))]}
    return {**call, **draw.named(lengths=_lengths(draw, y=n), params=params)}


_OF_TEXT = {
    "scale": _of_scale,
    "saxpy": _of_saxpy,
    "fixed": _of_fixed,
    "quads": _of_quads,
    "decay": _of_decay,
    "sized": _of_sized,
}
assert set(_OF_TEXT) == set(TEXTS)


def _dispatched(draw: _Draw) -> Call:
    n = draw.size()
    written = draw.one_of({"alloc": n}, draw.array("float32", n))
    specs = draw.one_of(None, None, {"dict": {"factor": 3}}, {"dict": {"other": 3}})
    return {"args": [[draw.array("float32", n), written], draw.grid(_rows(n))], **draw.named(specs=specs)}


def _dispatched_saxpy(draw: _Draw) -> Call:
    n = draw.size()
    call = {"args": [[draw.array("float32", n), draw.array("float32", n)], draw.grid(_rows(n))]}
    params = draw.one_of({"alpha": draw.number()}, {"alpha": 2, "n": n}, {})
    return {**call, **draw.named(params={"dict": params})}


def _scan(draw: _Draw) -> Call:
    encoding = draw.one_of(None, None, "base64", "hex", "base64url", "utf7")
    patterns = draw.one_of(["one", "ne"], [{"bytes": "6f6e65"}], ["two"], [], ["o+", "t.o"], ["(", ""], "one")
    data = draw.one_of(
        b"", b"one two one", b"6f6e652074776f", b"b25lIHR3bw==", b"b25l IHR3bw", b"ONE two " * 9
    )
    options = {"patterns": patterns, "encoding": encoding, "regex": draw.one_of(False, False, True)}
    options |= {"caseless": draw.one_of(False, True), "strict": draw.one_of(True, False)}
    options["target"] = "cuda" if draw.on_gpu else draw.one_of(None, "cpu", None, "tpu")
    return {"args": [draw.text(data)], "options": options}


SUBJECTS: dict[str, Callable[[_Draw], Call]] = {
    "kernels.softmax": _softmax,
    "kernels.softmax_step": _softmax_step,
    "kernels.prefix_scan": _prefix_scan,
    "kernels.matvec_fixed": _matvec_fixed,
    "kernels.matmul": _matmul,
    "kernels.tt_contract_step": _contract_step,
    "kernels.tt_chain": _chain,
    "kernels.TTChain": _prepared_chain,
    "kernels.tt_embedding": _embedding,
    "kernels.TTTable": _embedding,
    "kernels.base64_decode": _base64,
    "kernels.hex_decode": _hex,
    "kernels.decode_scan": _decode_scan,
    "program.saxpy": _saxpy,
    "program.unguarded": _one_to_one("float32", "float32"),
    "program.transpose": _transpose,
    "program.narrow": _narrow,
    "program.volume": _volume,
    "program.alone": _alone,
    "program.integers": _integers,
    "program.others": _others,
    "program.halves": _one_to_one("float16", "float16"),
    "program.short_floats": _one_to_one("bf16", "float32"),
    "program.quads": _one_to_one("float32", "float32"),
    "program.tally": _tally,
    "program.turned": _one_to_one("int64", "int64"),
    "program.stepped": _stepped,
    "program.flags": _one_to_one("float32", "bool"),
    "program.scale": _scaled,
    "program.smooth": _one_to_one("float32", "float32"),
    "pipeline.smoothed": _floats_of_one_size(2),
    "pipeline.heat": _floats_of_one_size(1),
    "pipeline.heated": _floats_of_one_size(2, True),
    "pipeline.two": _floats_of_one_size(3, True),
    "pipeline.counted": _counted,
    "pipeline.ranks": _floats_of_one_size(2),
    "pipeline.prefixes": _prefixes,
    "pipeline.sheets": _sheets,
    **{f"compile.{name}": subject for name, subject in _OF_TEXT.items()},
    **{f"run.{name}": subject for name, subject in _OF_TEXT.items()},
    "dispatch.scale": _dispatched,
    "dispatch.saxpy": _dispatched_saxpy,
    "scan.scan": _scan,
}
assert {name.partition(".")[2] for name in SUBJECTS} >= {*PROGRAMS, *PIPELINES}


# --- changes: other layouts and libraries, which are right or wrong, and mistakes


def _leaves(about: Any) -> Iterator[dict[str, Any]]:
    """The descriptions of arrays and texts in arguments."""
    if isinstance(about, dict):
        if "array" in about or "bytes" in about:
            yield about
            return
        about = list(about.values())
    if isinstance(about, list):
        for each in about:
            yield from _leaves(each)


def _arrays(call: Call) -> list[dict[str, Any]]:
    return [leaf for leaf in _leaves([call["args"], call.get("named", {})]) if "array" in leaf]


def _slots(about: Any) -> Iterator[tuple[Any, Any]]:
    """Where arguments stand: a list or dict, and the place in it."""
    if isinstance(about, list):
        for place, each in enumerate(about):
            yield about, place
            yield from _slots(each)
    elif isinstance(about, dict):
        for kind in ("dict", "tuple"):
            if kind in about:
                items = about[kind]
                places = items if kind == "dict" else range(len(items))
                for place in list(places):
                    yield items, place
                    yield from _slots(items[place])


def _change_array(draw: _Draw, call: Call, **values: Any) -> None:
    arrays = _arrays(call)
    if arrays:
        draw.one_of(*arrays).update(values)


def _other_layout(draw: _Draw, call: Call) -> None:
    _change_array(draw, call, **{"as": draw.one_of(*[each for each in LAYOUTS if each != "plain"])})


def _other_library(draw: _Draw, call: Call) -> None:
    libraries = ["list", "bytes", "memoryview", "masked", "gpu", "interface", "numpy"]
    _change_array(draw, call, **{"in": draw.one_of(*libraries, *["torch"] * draw.torch)})


def _other_type(draw: _Draw, call: Call) -> None:
    kinds = ("float32", "float64", "float16", "int32", "uint32", "uint8", "int64", "bool", "complex64")
    _change_array(draw, call, array=draw.one_of(*kinds, "datetime64[s]"), of="small")


def _other_shape(draw: _Draw, call: Call) -> None:
    arrays = _arrays(call)
    if not arrays:
        return
    array = draw.one_of(*arrays)
    shape = list(array["shape"])
    n = shape[-1] if shape else 1
    lengths = [*shape[:-1], draw.one_of(0, 1, n + 1, max(0, n - 1))]
    array["shape"] = draw.one_of(lengths, lengths, [1, *shape], [*shape, 1], [], shape[:-1], shape[::-1])


def _same_array(draw: _Draw, call: Call) -> None:
    slots = [(where, at) for where, at in _slots(call["args"]) if _is_array(where[at])]
    if len(slots) > 1:
        where, at = draw.one_of(*slots[1:])
        whole = {"same": 0}
        part = {"part": 0, "from": draw.one_of(0, 1), "to": draw.one_of(-1, 4)}
        where[at] = draw.one_of(whole, whole, part)


def _out_is_input(draw: _Draw, call: Call) -> None:
    if call["of"].startswith("kernels.") and _arrays(call):
        call.setdefault("named", {})["out"] = draw.one_of({"same": 0}, {"same": 1}, {"object": "object"})


def _is_array(about: Any) -> bool:
    return isinstance(about, dict) and "array" in about


STRANGE: tuple[Any, ...] = (
    None,
    1,
    2.5,
    "text",
    [],
    {"object": "object"},
    {"object": "set"},
    {"object": "function"},
    {"dict": {}},
    {"number": ["float32", 1.0]},
    {"bytes": "6f6e65"},
    True,
)


def _strange_argument(draw: _Draw, call: Call) -> None:
    slots = list(_slots(call["args"]))
    if slots:
        where, at = draw.one_of(*slots)
        where[at] = copy.deepcopy(draw.one_of(*STRANGE))


def _strange_option(draw: _Draw, call: Call) -> None:
    for kind in draw.rng.sample(("named", "options"), 2):
        names = [name for name in call.get(kind, {}) if name != "target" or call["of"].startswith("scan")]
        if names:
            call[kind][draw.one_of(*names)] = copy.deepcopy(draw.one_of(*STRANGE))
            return
    _strange_argument(draw, call)


def _strange_target(draw: _Draw, call: Call) -> None:
    target = draw.one_of("gpu", "", "CPU", 3, {"object": "object"}, ["cpu"])
    if call["of"].startswith("kernels."):
        call.setdefault("named", {})["dispatcher"] = target
    elif not call["of"].startswith(("scan", "dispatch")):
        call.setdefault("options", {})["target"] = target


def _missing(draw: _Draw, call: Call) -> None:
    if call["args"]:
        call["args"].pop(draw.rng.randrange(len(call["args"])))


def _too_many(draw: _Draw, call: Call) -> None:
    call["args"].append(copy.deepcopy(draw.one_of(*STRANGE)))


def _unknown_name(draw: _Draw, call: Call) -> None:
    call.setdefault("named", {})[draw.one_of("lenghts", "x", "y", "grid", "n", "axis")] = draw.one_of(1, None)


def _other_grid(draw: _Draw, call: Call) -> None:
    grids: tuple[Any, ...] = (
        -1,
        0,
        1.5,
        True,
        None,
        "1",
        [],
        2**32,
        {"tuple": [1, 2, 3, 4]},
        {"tuple": [1, -2]},
        [1, 1],
    )
    grid = draw.one_of(*grids, {"number": ["int64", 1]}, {"tuple": []}, {"tuple": [1, 1, 1]}, 0)
    way = call["of"].partition(".")[0]
    if way == "program" and call["args"]:
        call["args"][0] = grid
    elif way in ("compile", "run", "dispatch"):
        call["args"][1:2] = [grid]


def _other_name(draw: _Draw, call: Call) -> None:
    """The name of an input, a length or a param is wrong, or is missing."""
    named = [
        where for where, _ in _slots([call["args"], *call.get("named", {}).values()]) if type(where) is dict
    ]
    if named:
        items = draw.one_of(*named)
        if items:
            value = items.pop(draw.one_of(*items))
            if draw.rng.random() < 0.6:
                items[draw.one_of("xs", "@x", "Y", "z", "")] = value


_CHANGES: tuple[Callable[[_Draw, Call], None], ...] = (
    _other_layout,
    _other_layout,
    _other_layout,
    _other_library,
    _other_library,
    _other_type,
    _other_type,
    _other_shape,
    _other_shape,
    _same_array,
    _same_array,
    _out_is_input,
    _strange_argument,
    _strange_option,
    _strange_target,
    _missing,
    _too_many,
    _unknown_name,
    _other_grid,
    _other_name,
)
