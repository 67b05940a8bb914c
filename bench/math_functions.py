"""Mathematical functions on the CPU, beside NumPy in the same run:  python bench/math_functions.py

Each maps an array that stays in the cache, into an array that is there already, on one thread; each is timed in
bursts of its own (see bursts).  Arguments are where a function is used: neither of them overflows, and sin's are
moderate, but for the rows of large ones.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from bursts import bursts
from measure import machine, save, today

RESULT = Path(__file__).parent / "results" / "math_functions.json"
COUNT = 1 << 16
OURS = "vyre-opt"

Array = np.ndarray[Any, Any]
Function = Callable[[], Any]

PEERS: dict[str, Callable[..., Array] | None] = {
    "rsqrt": None, "rcp": np.reciprocal, "cbrt": np.cbrt, "exp": np.exp, "exp2": np.exp2, "exp10": None,
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p, "pow": np.power, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "erf": None, "erfc": None,
}  # fmt: skip
"""What NumPy calls a function; None where it has none."""

RANGES = {
    **dict.fromkeys(("rsqrt", "rcp", "log", "log2", "log1p"), (0.01, 100.0)),
    "pow": (0.01, 20.0), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0),
}  # fmt: skip
"""Others are tried from -10 to 10."""

LARGE = {"f32": 1e30, "f64": 1e300}


def text(name: str, dtype: str, operands: int) -> str:
    """A program that applies an op to arrays of COUNT elements."""
    buffers = "".join(f"  buffer @x{k} : {dtype}[{COUNT}] read binding({k})\n" for k in range(operands))
    loads = "".join(f"  %v{k} = load @x{k}[%i] : {dtype}\n" for k in range(operands))
    values = ", ".join(f"%v{k}" for k in range(operands))
    return f"""vyre 1
program @map workgroup(256) {{
{buffers}  buffer @y : {dtype}[{COUNT}] write binding({operands}) live_out
  %i = global_id x
{loads}  %r = {name} {values} : {dtype}
  store %r, @y[%i] : {dtype}
}}
"""


def functions(name: str, dtype: str, arguments: list[Array]) -> dict[str, Function]:
    """Ours and NumPy's, each with an output of its own."""
    import vyre_opt
    from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

    ours = vyre_opt.compile(text(name, dtype, len(arguments)), target=CpuDispatcher(workers=1))
    result, theirs = np.empty_like(arguments[0]), np.empty_like(arguments[0])
    inputs = {**{f"x{k}": argument for k, argument in enumerate(arguments)}, "y": result}
    peer = PEERS[name]
    found: dict[str, Function] = {OURS: lambda: ours(inputs, COUNT // 256)}
    if peer is not None:
        found["numpy"] = lambda: peer(*arguments, out=theirs)
    return found


def samples() -> Iterator[dict[str, Any]]:
    """Every function and type: nanoseconds an element."""
    rng = np.random.default_rng(1)
    cases = [(name, dtype, RANGES.get(name, (-10.0, 10.0))) for name in PEERS for dtype in ("f32", "f64")]
    cases += [(name, dtype, (-LARGE[dtype], LARGE[dtype])) for name in ("sin", "tan") for dtype in LARGE]
    for name, dtype, (low, high) in cases:
        operands = 2 if name in ("pow", "atan2") else 1
        kind = np.float32 if dtype == "f32" else np.float64
        arguments = [rng.uniform(low, high, COUNT).astype(kind) for _ in range(operands)]
        if name == "pow":
            arguments[1] = rng.uniform(-10.0, 10.0, COUNT).astype(kind)
        costs = bursts(functions(name, dtype, arguments))
        yield {
            "function": name,
            "dtype": dtype,
            "range": f"{low:g} to {high:g}",
            "nanoseconds": {who: cost.seconds / COUNT * 1e9 for who, cost in costs.items()},
        }


def row(sample: dict[str, Any]) -> list[str]:
    times = sample["nanoseconds"]
    peer = [f"{times['numpy']:.2f}", f"{times['numpy'] / times[OURS]:.2f}"] if "numpy" in times else ["", ""]
    return [sample["function"], sample["dtype"], sample["range"], f"{times[OURS]:.2f}", *peer]


def main() -> None:
    results = []
    for each in samples():
        results.append(each)
        print(" | ".join(row(each)), flush=True)
    compared = [s["nanoseconds"] for s in results if "numpy" in s["nanoseconds"]]
    ratio = geometric_mean(times["numpy"] / times[OURS] for times in compared)
    result = {
        "name": "math_functions",
        "title": "Mathematical functions on the CPU",
        "about": f"An op on arrays of {COUNT} elements, which stay in the cache, on one thread beside NumPy's function "
        "on one.  Arguments are uniform in the range; those of pow have exponents from -10 to 10.  NumPy has no exp10, "
        "erf, erfc and rsqrt.  Its results depend on the machine; ours are the same bits on every target.  A ratio is "
        f"NumPy's time over ours: above 1 we are faster; their geometric mean is {ratio:.2f}.",
        "date": today(),
        "machine": machine(),
        "versions": {package: importlib.metadata.version(package) for package in ("llvmlite", "numpy")},
        "absent": [],
        "tables": [
            {
                "caption": "Nanoseconds an element, and ratios",
                "columns": ["function", "type", "arguments", "ours ns", "numpy ns", "numpy / ours"],
                "rows": [row(each) for each in results],
            }
        ],
        "targets": [],
        "samples": results,
    }
    save(RESULT, result)


if __name__ == "__main__":
    main()
