"""Kernels of rows and blocks as slices, beside Triton and torch:  python bench/slices.py [--device cuda]

Ours are those of slice_kernels, called as a user calls them; the peers are those of slice_peers, in the same run on the same
tensors, after results were compared.  Shapes are drawn at random.  Tensors are torch's, which it needs.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from types import ModuleType
from typing import Any

import torch
from call_timing import Run, Side, called, command_line, options, side_of
from gpu_timing import relative_error, target
from measure import save, today
from slice_kernels import BLOCK, F32_BLOCKS, KERNELS, PRODUCTS

import vyre_opt as vyre
from vyre_opt import kernels
from vyre_opt.row_kernels.attention import KEYS, QUERIES, attention_of

ELEMENTS = {"cpu": (1e4, 2e6), "cuda": (1e6, 1e8)}
COLUMNS = 32, 40_000
SECONDS = {"cpu": 0.02, "cuda": 0.006}
LISTED = {"cpu": ((1000, 1000),), "cuda": ((16384, 1024), (4096, 4096), (1024, 32768))}
PRODUCT_SHAPES: dict[str, dict[str, list[tuple[int, ...]]]] = {
    "cpu": {
        "matmul_gelu": [(256, 256, 256)],
        "batched_matmul": [(4, 128, 128, 128)],
        "attention": [(4, 128, 64)],
    },
    "cuda": {
        "matmul_gelu": [(4096, 4096, 4096), (1024, 4096, 1024)],
        "batched_matmul": [(64, 512, 512, 512)],
        "attention": [(64, 4096, 128), (64, 4096, 64), (16, 1000, 64)],
    },
}
HEADS = (64, 128)
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
TOLERANCE = {"f32": 1e-5, "bf16": 8e-3}
OURS = "ours"
ATTENTION = ("attention", "attention_causal")
CAUSAL = ("attention_causal",)


def shapes(name: str, args: argparse.Namespace) -> Iterator[tuple[int, ...]]:
    """Listed ones, and some drawn; of those half have rows of whole vectors.  Of products: (matrices,) rows, columns, depth."""
    rng, (low, high) = random.Random(args.seed), ELEMENTS[args.device]
    if name.startswith("attention"):
        yield from PRODUCT_SHAPES[args.device]["attention"]
        for number in range(args.drawn // 2):
            yield rng.randint(2, 64), int(128 * 32 ** rng.random()), HEADS[number % 2]
        return
    if name in PRODUCTS["f32"]:
        yield from PRODUCT_SHAPES[args.device][name]
        for number in range(args.drawn):
            matrices = (rng.randint(2, 64),) if name == "batched_matmul" else ()
            low, high = (64, 1024) if matrices or args.device == "cpu" else (64, 6000)
            extents = [int(low * (high / low) ** rng.random()) for _ in range(3)]
            yield (*matrices, *(extent // 8 * 8 if number % 2 else extent for extent in extents))
        return
    yield from LISTED[args.device]
    for number in range(args.drawn):
        columns = int(COLUMNS[0] * (COLUMNS[1] / COLUMNS[0]) ** rng.random())
        columns = columns // 8 * 8 if number % 2 else columns
        yield max(1, int(low * (high / low) ** rng.random()) // columns), columns


def arguments(name: str, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> list[Any]:
    """Those of a kernel; the last array is the result."""
    torch.manual_seed(sum(shape))

    def drawn(*extents: int, of: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(extents, device=device).to(of)

    if name.startswith("attention"):
        return [drawn(*shape) for _ in range(4)]
    if name in PRODUCTS["f32"]:
        *matrices, m, n, k = shape
        bias = [drawn(n)] if name == "matmul_gelu" else []
        return [drawn(*matrices, m, k), drawn(*matrices, k, n), *bias, drawn(*matrices, m, n)]
    rows, columns = shape
    x, y = drawn(rows, columns), drawn(rows, columns)
    if name in ("softmax", "cumsum"):
        return [x, y]
    if name == "argmax":
        return [x, torch.zeros(rows, dtype=torch.int32, device=device)]
    if name == "cross_entropy":
        wanted = torch.randint(0, columns, (rows,), dtype=torch.int32, device=device)
        return [x, wanted, torch.zeros(rows, device=device)]
    if name == "dropout":
        return [x.reshape(-1), y.reshape(-1), 7]
    if name == "layernorm_backward":
        wide = x.float()
        mean, scale = wide.mean(1), (wide.var(1, unbiased=False) + 1e-5).rsqrt()
        return [drawn(rows, columns), x, drawn(columns), mean, scale, y]
    return [x, *(drawn(columns) for _ in range({"layernorm": 2, "rms_norm": 1}[name])), y]


def ours(name: str, dtype: str, arrays: Sequence[Any]) -> Run:
    x = arrays[0]
    if name.startswith("attention"):
        q, k, v, y = arrays
        return lambda: kernels.attention(q, k, v, causal=name in CAUSAL, out=y)
    if name in PRODUCTS[dtype]:
        product, (*matrices, m, n) = PRODUCTS[dtype][name], arrays[-1].shape

        def tiles(choice: Mapping[str, int]) -> tuple[int, ...]:
            return vyre.ceil_div(m, choice["m"]), vyre.ceil_div(n, choice["n"]), *matrices

        product.autotune(*arrays, grid=tiles, store=None)
        launch = product[tiles]
        return lambda: launch(*arrays)
    grid = len(x) if name != "dropout" else vyre.ceil_div(len(x), BLOCK)
    kernel = KERNELS[dtype][name][grid]
    return lambda: kernel(*arrays)


def sample(
    name: str, dtype: str, shape: tuple[int, ...], side: Side, peers: dict[str, ModuleType], args: Any
) -> dict[str, Any]:
    """The seconds of ours and of each peer, and a message for each that failed."""
    plain = name.removesuffix("_fast")
    arrays = arguments(plain, shape, TYPES[dtype], args.device)
    functions: dict[str, Callable[..., Any]] = {
        each: getattr(module, plain) for each, module in peers.items()
    }
    runs: dict[str, Run] = {OURS: ours(name, dtype, arrays)}
    runs |= {each: lambda f=f: f(*arrays) for each, f in functions.items()}  # type: ignore[misc]
    failed: dict[str, str] = {}
    results: dict[str, torch.Tensor] = {}
    for each, run in runs.items():
        try:
            returned = run()
            result = (
                next(a for a in reversed(arrays) if isinstance(a, torch.Tensor))
                if returned is None
                else returned
            )
            results[each] = result.clone()
        except Exception as error:  # whatever a library raises, the others are measured
            failed[each] = f"{type(error).__name__}: {error}".splitlines()[0][:160].replace("|", "/")
    expected = results.get("torch")
    if name != "dropout" and expected is not None:
        for each, result in results.items():
            distance = relative_error(result.double().reshape(-1), expected.double().reshape(-1))
            if not distance <= TOLERANCE[dtype] * (10 if name == "cumsum" else 1):
                failed[each] = f"it is wrong, relative error {distance:.1e}"
    left = {each: run for each, run in runs.items() if each not in failed}
    seconds = SECONDS[args.device] / (10 if args.quick else 1)
    return {
        "kernel": f"{name} {dtype}", "shape": list(shape), "seconds": called(left, side, seconds), "failed": failed,
    }  # fmt: skip


def cells(each: dict[str, Any], peers: Sequence[str]) -> list[str]:
    """A row of the table: microseconds of each, and the ratio of each peer."""
    mine = each["seconds"].get(OURS)
    times = [each["seconds"].get(name) for name in (OURS, *peers)]
    ratios = [
        f"{time / mine:.2f}" if time and mine else each["failed"].get(name, "")[:40]
        for name, time in zip(peers, times[1:], strict=True)
    ]
    shown = ["" if time is None else f"{time * 1e6:.1f}" for time in times]
    return [each["kernel"], " x ".join(map(str, each["shape"])), *shown, *ratios]


def lines_of(name: str, peers: dict[str, ModuleType]) -> list[str]:
    if name.startswith("attention"):
        kernel = attention_of(HEADS[0], QUERIES, KEYS, name in CAUSAL)
        return lines_beside(name, kernel, peers)
    first = {size: sizes[0] for size, sizes in F32_BLOCKS.items()}
    kernel = PRODUCTS["f32"][name].at(**first) if name in PRODUCTS["f32"] else KERNELS["f32"][name]
    return lines_beside(name, kernel, peers)


def lines_beside(name: str, kernel: Any, peers: dict[str, ModuleType]) -> list[str]:
    source = inspect.getsource(kernel.function)
    mine = sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("@"))
    return [name, str(mine), str(peers["triton"].lines(name)) if "triton" in peers else ""]


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__, drawn=6)
    parser.add_argument("--only", metavar="A,B", help="these kernels (all)")
    parser.add_argument(
        "--products", action="store_true", help="products of matrices, in a file of their own"
    )
    args = parser.parse_args(argv)
    side, peers, absent = side_of(args.device), dict[str, ModuleType](), list[str]()
    for name in ("torch", "triton") if args.device == "cuda" else ("torch",):
        try:
            peers[name] = importlib.import_module(f"slice_peers.{name}")
        except ImportError as error:
            absent.append(f"{name}: {error}")
    listed = [*PRODUCTS["f32"], *ATTENTION] if args.products else [*KERNELS["f32"]]
    names = args.only.split(",") if args.only else listed
    samples = []
    for name in names:
        for dtype in KERNELS:
            for shape in shapes(name, args):
                samples.append(sample(name, dtype, shape, side, peers, args))
                print(" | ".join(cells(samples[-1], [*peers])), flush=True)
    kind = "slice_products" if args.products else "slices"
    save(args.results / f"{kind}_{args.device}.json", result(args, side, samples, peers, absent, names))


def heading(args: argparse.Namespace) -> dict[str, str]:
    """Text above the tables of the page."""
    where = "on a GPU" if args.device == "cuda" else "on the CPU"
    chosen = (" --products" if args.products else "") + (f" --only {args.only}" if args.only else "")
    return {
        "name": "slices",
        "arguments": command_line(args) + chosen,
        "title": f"{'Products of matrices' if args.products else 'Kernels'} as slices, {where}",
        "about": "Kernels that say what a workgroup does with a row or a block, without lanes, masks or schedules, beside Triton (a row a "
        "program, in a block of the next power of two) and torch's operators, on the same tensors in the same run, after results were "
        "compared.  The time is that of a call in a row of calls with one synchronization at the end.  Some shapes are listed, others drawn at "
        f"random, seed {args.seed}.  Sizes of blocks of products are measured, ours and Triton's.  A ratio is the time of the peer over ours: "
        "above 1 we are faster.",
    }


def result(
    args: argparse.Namespace,
    side: Side,
    samples: list[dict[str, Any]],
    peers: dict[str, ModuleType],
    absent: list[str],
    names: Sequence[str],
) -> dict[str, Any]:
    def ratios(peer: str, kernel: str = "") -> list[float]:
        return [
            each["seconds"][peer] / each["seconds"][OURS]
            for each in samples
            if peer in each["seconds"] and OURS in each["seconds"] and each["kernel"].startswith(kernel)
        ]

    def shown(values: list[float]) -> list[str]:
        return [f"{min(values):.2f}", f"{geometric_mean(values):.2f}"] if values else ["", ""]

    kernels = list(dict.fromkeys(each["kernel"] for each in samples))
    return {
        **heading(args),
        "date": today(),
        "machine": side.facts(),
        "versions": {
            "torch": torch.__version__,
            **{name: importlib.import_module(name).__version__ for name in peers},
        },
        "absent": absent,
        "tables": [
            {
                "caption": "Time of a peer over ours: the worst of the shapes, and the geometric mean",
                "columns": ["kernel", *(f"{peer}, {what}" for peer in peers for what in ("worst", "mean"))],
                "rows": [
                    [kernel, *(cell for peer in peers for cell in shown(ratios(peer, kernel)))]
                    for kernel in kernels
                ],
            },
            {
                "caption": "Lines of the kernel",
                "columns": ["kernel", OURS, "triton"],
                "rows": [lines_of(name, peers) for name in names if not name.endswith("_fast")],
            },
            {
                "caption": "Microseconds of a call, and the ratio of each peer",
                "columns": ["kernel", "shape", OURS, *peers, *(f"{peer} over ours" for peer in peers)],
                "rows": [cells(each, [*peers]) for each in samples],
            },
        ],
        "targets": [
            target(f"0.95 of {peer}", ratios(peer), 0.95)
            for peer in peers
            if peer != "torch" and ratios(peer)
        ],
        "samples": samples,
    }


if __name__ == "__main__":
    main()
