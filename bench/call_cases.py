"""The calls that bench/calls.py measures: functions, shapes, arguments, and what peers do in their place.

Arguments are NumPy arrays here, and lists of them; a bench converts them for the library of each side.
"""

from __future__ import annotations

import binascii
import importlib.util
import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import isqrt
from typing import Any

import numpy as np

__all__ = [
    "FUNCTIONS",
    "GPU_LIBRARIES",
    "HOST_LIBRARIES",
    "TEXT_LIBRARIES",
    "CallCase",
    "cases",
    "has",
    "search_on_host",
]

HOST_LIBRARIES = ("numpy", "torch", "binascii", "pybase64", "pyahocorasick")
GPU_LIBRARIES = ("torch", "cupy", "triton")
TEXT_LIBRARIES = ("binascii", "pybase64", "pyahocorasick")
"""Take text as bytes."""

ELEMENTS = 1024
"""Of the arrays of the compiled program and pipeline."""

STAGES = 8
NEW_ARRAYS = 1024
"""That a call on new arrays goes through in turn: more than any cache of addresses has entries."""

CHAIN_STEPS, MAX_STEPS = 8, 32
ROWS, COLUMNS, RANK = (200, 220, 250), (4, 4, 4), 16
"""Of the cores of the embedding's table, as in embedding_gpu."""

MAX_DRAWS = 20
"""For each shape that is wanted; few elements have few shapes."""

MAX_TRITON_COLUMNS = 1 << 16
MAX_SEARCHED_BYTES = 64 << 20
MAX_PRODUCT = 1 << 22
"""Of a matrix that is multiplied by a square one: more take seconds a call on a CPU."""

MAX_LOOKUPS = 1 << 20
"""For which the peers of the embedding have a temporary array of 4 GiB."""

Shape = tuple[int, ...]
Call = Callable[..., Any]


@dataclass(frozen=True)
class CallCase:
    """A row: `function(*arguments)` beside `peer(*arguments)` of each library.

    `drawn`: whether the shape is a random one.  `bytes`: of the largest array.  `tolerance`: of the difference
    of results, relative to the largest element.  `makes(dispatcher)`: the function on a dispatcher, None for
    the default.  `takes_new`: whether the arguments are those of many calls, of one argument each.
    """

    name: str
    shape: str
    drawn: bool
    bytes: int
    arguments: list[Any]
    peers: Mapping[str, Call]
    tolerance: float
    makes: Callable[[Any], Call]
    takes_new: bool = False


def has(library: str) -> bool:
    """Whether a library is installed."""
    module = {"pyahocorasick": "ahocorasick"}.get(library, library)
    return importlib.util.find_spec(module) is not None


# --- what peers do: library -> function of the same arguments


def _numpy_softmax(x: np.ndarray) -> np.ndarray:
    y: np.ndarray = x - x.max(-1, keepdims=True)
    np.exp(y, out=y)
    y /= y.sum(-1, keepdims=True)
    return y


def _torch_softmax(x: Any) -> Any:
    import torch

    return torch.softmax(x, -1)


def _triton_softmax(x: Any) -> Any:
    """A program a row, of 4 to 16 warps; not tuned."""
    import torch
    from triton_softmax import launch

    y = torch.empty_like(x)
    rows, columns = x.shape
    launch(x, y, rows, 4 if columns <= 2048 else 8 if columns <= 8192 else 16, 1, 1)
    return y


EPS = 1e-5


def _numpy_layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    y: np.ndarray = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + EPS) * weight + bias
    return y


def _torch_layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    import torch

    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, EPS)


def _numpy_rms_norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    y: np.ndarray = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPS)) * weight
    return y


def _torch_rms_norm(x: Any, weight: Any) -> Any:
    import torch

    return torch.nn.functional.rms_norm(x, weight.shape, weight, EPS)


def _numpy_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    y: np.ndarray = _numpy_softmax(q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5)) @ v
    return y


def _torch_attention(q: Any, k: Any, v: Any) -> Any:
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def _numpy_norm_backward(dy: np.ndarray, x: np.ndarray, weight: np.ndarray, is_centred: bool) -> Any:
    centred = x - x.mean(-1, keepdims=True) if is_centred else x
    scale = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(EPS))
    normed, grad = centred * scale, dy * weight
    level = grad.mean(-1, keepdims=True) if is_centred else 0
    dx = (grad - level - normed * (grad * normed).mean(-1, keepdims=True)) * scale
    of_weight = (dy * normed).sum(0)
    return (dx, of_weight, dy.sum(0)) if is_centred else (dx, of_weight)


def _torch_layer_norm_backward(dy: Any, x: Any, weight: Any) -> Any:
    import torch

    aten, shape, needed = torch.ops.aten, list(weight.shape), [True] * 3
    _, mean, scale = aten.native_layer_norm(x, shape, weight, weight, EPS)
    return aten.native_layer_norm_backward(dy, x, shape, mean, scale, weight, weight, needed)


def _torch_rms_norm_backward(dy: Any, x: Any, weight: Any) -> Any:
    import torch

    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    return torch.autograd.grad(_torch_rms_norm(x, weight), (x, weight), dy)


def _numpy_log_sum_exp(x: np.ndarray) -> np.ndarray:
    most = x.max(-1)
    y: np.ndarray = np.log(np.exp(x - most[..., None]).sum(-1)) + most
    return y


def _torch_log_sum_exp(x: Any) -> Any:
    import torch

    return torch.logsumexp(x, -1)


def _numpy_cross_entropy(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    y: np.ndarray = _numpy_log_sum_exp(x) - np.take_along_axis(x, labels[:, None], -1)[:, 0]
    return y


def _torch_cross_entropy(x: Any, labels: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(x, labels, reduction="none")


def _numpy_softmax_step(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.uint64)
    total = np.maximum(wide.sum(), np.uint64(1))
    y: np.ndarray = ((wide << np.uint64(16)) // total).astype(np.uint32)
    return y


def _torch_softmax_step(x: Any) -> Any:
    import torch

    wide = x.to(torch.int64)
    return ((wide << 16) // wide.sum().clamp(min=1)).to(torch.uint32)


def _torch_cumsum(x: Any) -> Any:
    import torch

    return torch.cumsum(x, 0)


def _cupy_cumsum(x: Any) -> Any:
    import cupy

    return cupy.cumsum(x)


def _numpy_matvec_fixed(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    y: np.ndarray = ((m.astype(np.int64) * x) >> 16).sum(1).astype(np.int32)
    return y


def _torch_matvec_fixed(m: Any, x: Any) -> Any:
    import torch

    return ((m.long() * x) >> 16).sum(1).to(torch.int32)


def _torch_contract(acc: Any, core: Any) -> Any:
    import torch

    return torch.mv(core.t(), acc)


def _multiplied(acc: Any, cores: Sequence[Any]) -> Any:
    for core in cores:
        acc = acc @ core
    return acc


def _numpy_embedding(cores: Sequence[np.ndarray], indices: np.ndarray) -> np.ndarray:
    count = indices.size
    digits = np.unravel_index(indices, ROWS)
    first, middle, last = (np.take(core, digit, 0) for core, digit in zip(cores, digits, strict=True))
    rows = first.reshape(count, -1, RANK) @ middle.reshape(count, RANK, -1)
    y: np.ndarray = rows.reshape(count, -1, RANK) @ last.reshape(count, RANK, -1)
    return y.reshape(count, -1)


def _torch_embedding(cores: Sequence[Any], indices: Any) -> Any:
    import torch

    count = indices.numel()
    digits = (indices // (ROWS[1] * ROWS[2]), indices // ROWS[2] % ROWS[1], indices % ROWS[2])
    first, middle, last = (core[digit] for core, digit in zip(cores, digits, strict=True))
    rows = torch.bmm(first.view(count, -1, RANK), middle.view(count, RANK, -1))
    return torch.bmm(rows.view(count, -1, RANK), last.view(count, RANK, -1)).view(count, -1)


@lru_cache(maxsize=1)
def _base64_values(device: Any) -> Any:
    """Character -> six bits, on a device of torch."""
    import torch

    values = torch.zeros(256, dtype=torch.int32)
    for value, character in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
        values[character] = value
    return values.to(device)


def _torch_base64(text: Any) -> Any:
    """Of text without padding."""
    import torch

    a, b, c, d = _base64_values(text.device)[text.int()].view(-1, 4).unbind(1)
    return torch.stack((a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d), 1).view(-1).to(torch.uint8)


def _torch_hex(text: Any) -> Any:
    digits = (text & 15) + 9 * (text >> 6)
    return (digits[0::2] << 4) | digits[1::2]


def _pybase64(text: bytes) -> bytes:
    import pybase64

    return bytes(pybase64.b64decode(text))


@lru_cache(maxsize=1)
def _automaton(patterns: tuple[bytes, ...]) -> Any:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for number, pattern in enumerate(patterns):
        automaton.add_word(pattern.decode("latin-1"), number)
    automaton.make_automaton()
    return automaton


def _aho_corasick(text: bytes, patterns: tuple[bytes, ...]) -> list[tuple[int, int]]:
    return sorted(_automaton(patterns).iter(binascii.a2b_base64(text).decode("latin-1")))


def search_on_host(text: np.ndarray, patterns: tuple[bytes, ...]) -> list[tuple[int, int]]:
    """What decode_scan gives."""
    from scan_inputs import searched

    return searched(binascii.a2b_base64(text.tobytes()), list(patterns))[0]


def _doubled(x: Any) -> Any:
    return x * 2


def _eight_products(x: Any) -> Any:
    for _ in range(STAGES):
        x = x * 2
    return x


PEERS: dict[str, dict[str, Call]] = {
    "softmax": {"numpy": _numpy_softmax, "torch": _torch_softmax, "triton": _triton_softmax},
    "layer_norm": {"numpy": _numpy_layer_norm, "torch": _torch_layer_norm},
    "layer_norm_backward": {
        "numpy": partial(_numpy_norm_backward, is_centred=True),
        "torch": _torch_layer_norm_backward,
    },
    "rms_norm": {"numpy": _numpy_rms_norm, "torch": _torch_rms_norm},
    "rms_norm_backward": {
        "numpy": partial(_numpy_norm_backward, is_centred=False),
        "torch": _torch_rms_norm_backward,
    },
    "log_sum_exp": {"numpy": _numpy_log_sum_exp, "torch": _torch_log_sum_exp},
    "cross_entropy": {"numpy": _numpy_cross_entropy, "torch": _torch_cross_entropy},
    "attention": {"numpy": _numpy_attention, "torch": _torch_attention},
    "softmax_step": {"numpy": _numpy_softmax_step, "torch": _torch_softmax_step},
    "prefix_scan": {
        "numpy": lambda x: np.cumsum(x, dtype=x.dtype),
        "torch": _torch_cumsum,
        "cupy": _cupy_cumsum,
    },
    "matmul": dict.fromkeys(("numpy", "torch", "cupy"), operator.matmul),
    "matvec_fixed": {"numpy": _numpy_matvec_fixed, "torch": _torch_matvec_fixed},
    "tt_contract_step": {"numpy": lambda acc, core: acc @ core, "torch": _torch_contract},
    "tt_chain": {"numpy": _multiplied, "torch": _multiplied},
    "TTChain": {"numpy": _multiplied, "torch": _multiplied},
    "tt_embedding": {"numpy": _numpy_embedding, "torch": _torch_embedding},
    "TTTable": {"numpy": _numpy_embedding, "torch": _torch_embedding},
    "base64_decode": {"binascii": binascii.a2b_base64, "pybase64": _pybase64, "torch": _torch_base64},
    "hex_decode": {"binascii": binascii.unhexlify, "torch": _torch_hex},
    "decode_scan": {"pyahocorasick": _aho_corasick},
    "program": dict.fromkeys(("numpy", "torch", "cupy"), _doubled),
    "pipeline": dict.fromkeys(("numpy", "torch", "cupy"), _eight_products),
}


# --- ours


def _kernel(name: str, dispatcher: Any) -> Call:
    from vyre_opt import kernels

    if name == "TTChain":
        return _steps(dispatcher)
    if name == "TTTable":
        return _lookups(dispatcher)
    function: Call = getattr(kernels, name)
    return function if dispatcher is None else partial(function, dispatcher=dispatcher)


def _lookups(dispatcher: Any) -> Call:
    from vyre_opt.kernels import TTTable

    prepared = _prepared(partial(TTTable, dispatcher=dispatcher))
    return lambda cores, indices: prepared(cores)(indices)


def _steps(dispatcher: Any) -> Call:
    from vyre_opt.kernels import TTChain

    prepared = _prepared(partial(TTChain, dispatcher=dispatcher))
    return lambda acc, cores: prepared(cores)(acc)


def _prepared(prepare: Call) -> Call:
    """What is prepared of some cores, at the first call with them."""
    known: dict[int, tuple[Any, Any]] = {}

    def of(cores: Sequence[Any]) -> Any:
        if id(cores) not in known:
            # with the cores, so that no others get their id
            known[id(cores)] = (cores, prepare(cores))
        return known[id(cores)][1]

    return of


PROGRAM = """
program @double workgroup(256) {
  buffer @x : f32[?] read  binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : f32
    %twice = add %v, %v : f32
    store %twice, @y[%i] : f32
  }
}
"""


def program_text() -> str:
    return f"vyre 1\n{PROGRAM}"


def pipeline_text() -> str:
    """STAGES launches: @x0 -> @x1 -> ..."""
    lines = ["vyre 1", PROGRAM, "pipeline @main {"]
    for k in range(STAGES + 1):
        access = " read" if k == 0 else " write live_out" if k == STAGES else ""
        lines.append(f"  buffer @x{k} : f32[{ELEMENTS}]{access}")
    lines += [f"  launch @double grid({ELEMENTS // 256}) (@x{k}, @x{k + 1})" for k in range(STAGES)]
    return "\n".join([*lines, "}", ""])


def _program(target: str, dispatcher: Any) -> Call:
    import vyre_opt

    compiled = vyre_opt.compile(program_text(), target=dispatcher or target)
    lengths = {"y": ELEMENTS}
    return lambda x: compiled([x], ELEMENTS // 256, lengths=lengths)["y"]


def _pipeline(target: str, dispatcher: Any) -> Call:
    import vyre_opt

    compiled = vyre_opt.compile(pipeline_text(), target=dispatcher or target)
    return lambda x: compiled([x])[f"x{STAGES}"]


# --- shapes and arguments


def _numbers(count: int, dtype: Any = np.float32) -> np.ndarray:
    """From 0 to 1, or integers below 2^16; a pattern of a million repeated, which no kernel notices."""
    rng = np.random.default_rng(count)
    least = min(count, 1 << 20)
    if dtype is np.float32:
        return np.resize(rng.random(least, dtype=np.float32), count)
    return np.resize(rng.integers(0, 1 << 16, least).astype(dtype), count)


def _sparse_ones(count: int) -> np.ndarray:
    """Of f32; sums of up to 2^28 of them are exact in any order."""
    return (_numbers(count) < 1 / 64).astype(np.float32)


def _octets(count: int) -> bytes:
    return _numbers(count, np.uint16).astype(np.uint8).tobytes()


def _as_array(text: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(text), np.uint8)  # torch takes arrays that can be written


@lru_cache(maxsize=1)
def _corpus(size: int) -> Any:
    from scan_inputs import corpus

    return corpus(size)


@dataclass(frozen=True)
class Function:
    """A function of `vyre_opt.kernels` at shapes of up to a number of elements.

    `element_bytes`: of the largest array, for each element that a shape counts.  `listed(count)`,
    `draw(count, rng)`: shapes of about so many elements.  `arguments(*shape)`: arrays of such a shape.
    `elements(shape)`: their number.
    """

    element_bytes: int
    listed: Callable[[int], Shape]
    draw: Callable[[int, random.Random], Shape]
    arguments: Callable[..., list[Any]]
    tolerance: float = 0.0
    max_elements: int = 1 << 30
    elements: Callable[[Shape], int] = math.prod


def _log_uniform(rng: random.Random, most: int) -> int:
    return min(most, int(math.exp(rng.uniform(0, math.log(most + 1)))))


def _flat(count: int, rng: random.Random | None = None) -> Shape:
    return (count,)


def _triples(count: int, rng: random.Random | None = None) -> Shape:
    """Bytes that base64 encodes without padding."""
    return (max(3, count // 3 * 3),)


def _square(count: int) -> Shape:
    side = isqrt(count)
    return (side, count // side)


def _rectangle(count: int, rng: random.Random) -> Shape:
    from vyre_opt.ir.ops import MAX_COLUMNS

    columns = _log_uniform(rng, min(count, MAX_COLUMNS))
    return (count // columns, columns)


def _high(count: int, rng: random.Random) -> Shape:
    """No more columns than rows, so that a square of these is no larger."""
    columns = _log_uniform(rng, isqrt(count))
    return (count // columns, columns)


def _chain_shape(count: int, steps: int) -> Shape:
    from vyre_opt.ir.ops import MAX_RANK

    return (steps, max(1, min(MAX_RANK, isqrt(count // steps))))


def _chain(steps: int, rank: int) -> list[Any]:
    scale = np.float32(2 / rank)
    return [_numbers(rank), [_numbers(rank * rank).reshape(rank, rank) * scale for _ in range(steps)]]


def _embedding(count: int) -> list[Any]:
    ranks = (1, RANK, RANK, 1)
    shapes = zip(ROWS, ranks, COLUMNS, ranks[1:], strict=False)
    rng = np.random.default_rng(count)
    cores = [rng.random(shape, dtype=np.float32) for shape in shapes]
    return [cores, rng.integers(0, math.prod(ROWS), count)]


def _searched(size: int) -> list[Any]:
    """The first bytes of a text, encoded, and patterns."""
    work = _corpus(max(3 << 18, size)).first(size)
    return [work.encoded.copy(), tuple(work.patterns)]


def _of_rows(rows: int, columns: int, *, matrices: int = 1, vectors: int = 0) -> list[Any]:
    """Arguments of a kernel of rows: matrices, then vectors of a row's length."""
    shapes = [(rows, columns)] * matrices + [(columns,)] * vectors
    return [_numbers(math.prod(shape)).reshape(shape) for shape in shapes]


def _heads(rows: int, columns: int) -> list[Any]:
    """Queries, keys and values of heads of 256 x 64 elements, about as many as a matrix of that shape has."""
    queries = min(256, max(1, rows * columns // 64))
    shape = max(1, rows * columns // (64 * queries)), queries, 64
    return [_numbers(math.prod(shape)).reshape(shape) for _ in range(3)]


def _labelled(rows: int, columns: int) -> list[Any]:
    return [*_of_rows(rows, columns), np.random.default_rng(rows).integers(0, columns, rows)]


FUNCTIONS: dict[str, Function] = {
    "layer_norm": Function(4, _square, _rectangle, partial(_of_rows, vectors=2), 1e-4),
    "layer_norm_backward": Function(4, _square, _rectangle, partial(_of_rows, matrices=2, vectors=1), 1e-4),
    "rms_norm": Function(4, _square, _rectangle, partial(_of_rows, vectors=1), 1e-4),
    "rms_norm_backward": Function(4, _square, _rectangle, partial(_of_rows, matrices=2, vectors=1), 1e-4),
    "log_sum_exp": Function(4, _square, _rectangle, _of_rows, 1e-5),
    "cross_entropy": Function(4, _square, _rectangle, _labelled, 1e-5),
    "attention": Function(4, _square, _high, _heads, 1e-4),
    "softmax": Function(
        4, _square, _rectangle, lambda rows, columns: [_numbers(rows * columns).reshape(rows, columns)], 1e-5
    ),
    "softmax_step": Function(4, _flat, _flat, lambda n: [_numbers(n, np.uint32)]),
    "prefix_scan": Function(4, _flat, _flat, lambda n: [_sparse_ones(n)]),
    "matmul": Function(
        4,
        _square,
        _high,
        lambda rows, columns: [
            _numbers(rows * columns).reshape(rows, columns),
            _numbers(columns * min(rows, columns)).reshape(columns, -1),
        ],
        1e-4,
        max_elements=MAX_PRODUCT,
    ),
    "matvec_fixed": Function(
        4,
        _square,
        _rectangle,
        lambda rows, columns: [
            _numbers(rows * columns, np.int32).reshape(rows, columns),
            _numbers(columns, np.int32),
        ],
    ),
    "tt_contract_step": Function(
        4,
        _square,
        _rectangle,
        lambda inner, outer: [_numbers(inner), _numbers(inner * outer).reshape(inner, outer)],
        1e-3,
    ),
    **dict.fromkeys(
        ("tt_chain", "TTChain"),
        Function(
            4,
            lambda count: _chain_shape(count, CHAIN_STEPS),
            lambda count, rng: _chain_shape(count, 1 + _log_uniform(rng, MAX_STEPS - 1)),
            _chain,
            1e-3,
            elements=lambda shape: shape[0] * shape[1] ** 2,
        ),
    ),
    "tt_embedding": Function(
        4 * math.prod(COLUMNS), _flat, _flat, _embedding, 1e-4, max_elements=MAX_LOOKUPS
    ),
    "TTTable": Function(4 * math.prod(COLUMNS), _flat, _flat, _embedding, 1e-4, max_elements=MAX_LOOKUPS),
    "base64_decode": Function(
        2, _triples, _triples, lambda n: [_as_array(binascii.b2a_base64(_octets(n), newline=False))]
    ),
    "hex_decode": Function(2, _flat, _flat, lambda n: [_as_array(_octets(n).hex().encode())]),
    "decode_scan": Function(2, _triples, _triples, _searched, max_elements=MAX_SEARCHED_BYTES),
}


def shapes(function: Function, most_bytes: int, rng: random.Random) -> list[tuple[Shape, bool]]:
    """Listed shapes and as many drawn ones, if there are, each with whether it is drawn; smaller ones first."""
    most = max(1, min(most_bytes // function.element_bytes, function.max_elements))
    counts = sorted({*(16**k for k in range(8) if 16**k <= most), most})
    listed = {function.listed(count): False for count in counts}
    drawn: dict[Shape, bool] = {}
    for _ in range(MAX_DRAWS * len(listed)):
        shape = function.draw(_log_uniform(rng, most), rng)
        if len(drawn) < len(listed) and shape not in listed:
            drawn[shape] = True
    return sorted((drawn | listed).items(), key=lambda item: function.elements(item[0]))


def cases(target: str, most_bytes: int, seed: int, only: Sequence[str] = ()) -> Iterator[CallCase]:
    """All rows, made one by one since arrays are large.  `only`: names of functions; all if there are none.

    A seed gives a function the same shapes, whichever other functions are measured.
    """
    for name, function in FUNCTIONS.items():
        if only and name not in only:
            continue
        for shape, drawn in shapes(function, most_bytes, random.Random(f"{seed} {name}")):
            arguments = function.arguments(*shape)
            peers = dict(PEERS[name])
            if shape[-1] > MAX_TRITON_COLUMNS:  # a row is in the registers of one block there
                peers.pop("triton", None)
            yield CallCase(
                name,
                _title(name, shape),
                drawn,
                function.elements(shape) * function.element_bytes,
                arguments,
                peers,
                function.tolerance,
                partial(_kernel, name),
            )
    if not only or "program" in only:
        makes = partial(_program, target)
        yield _fixed("program", "1,024", [_numbers(ELEMENTS)], makes)
    if not only or "pipeline" in only:
        makes = partial(_pipeline, target)
        yield _fixed("pipeline", "1,024, same arrays", [_numbers(ELEMENTS)], makes)
        arrays = [_numbers(ELEMENTS) for _ in range(NEW_ARRAYS)]
        yield _fixed("pipeline", "1,024, new arrays", arrays, makes, takes_new=True)


def _fixed(name: str, shape: str, arguments: list[Any], makes: Any, takes_new: bool = False) -> CallCase:
    return CallCase(name, shape, False, 4 * ELEMENTS, arguments, PEERS[name], 0.0, makes, takes_new)


def _title(name: str, shape: Shape) -> str:
    if name == "tt_chain":
        return f"{shape[0]} steps of {shape[1]:,}"
    return " x ".join(f"{extent:,}" for extent in shape)
