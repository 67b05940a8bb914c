"""Lines of the examples in Python beside other languages:  python bench/python_lines.py

Counts what a user writes for a kernel and its launch: functions with their decorators, constants they use, the text of
a CUDA kernel and what compiles it.  Blank lines, comments, docstrings and imports do not count.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import machine, save, today

BENCH = Path(__file__).parent
OURS, PEERS = BENCH.parent / "examples" / "python", BENCH / "python_peers"
RESULTS = BENCH / "results"
MOST = 1.3
"""Lines of ours over those of a peer."""


@dataclass(frozen=True, slots=True)
class Row:
    """An example: the peer's language, and the names that are counted in each of the two files."""

    language: str
    ours: str
    peer: str


ROWS = {
    "saxpy": Row("Triton", "saxpy run", "saxpy run"),
    "stencil_2d": Row("Triton", "ROWS stencil run", "stencil run"),
    "layernorm": Row("Triton", "layernorm run", "layernorm run"),
    "row_softmax": Row("Triton", "LANES softmax run", "softmax run"),
    "byte_histogram": Row("CUDA", "histogram run", "HISTOGRAM histogram run"),
    "matmul": Row("CUDA", "TILE matmul run", "MATMUL matmul run"),
    "prefix_sum": Row(
        "Triton",
        "TILE WORKGROUP_TILES sum_tiles scan scan_tiles scan_all prefix_sum",
        "add sum_tiles scan_sums scan_tiles run",
    ),
    "hex_count": Row("CUDA", "count_lines hex_count", "HEX_COUNT module decode,count_lines run"),
    "heat_1d": Row("CUDA", "ROUNDS step heat", "ROUNDS STEP step run"),
}


def lines_of(source: str, names: Sequence[str]) -> int:
    """The lines of what is defined by these names at the top of a file.  Raises KeyError for one that is not there.

    Names that one statement assigns together are written with a comma between them.
    """
    parts = {_name(node): node for node in ast.parse(source).body}
    code = _code_lines(source)
    return sum(_lines(parts[name], code) for name in names)


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef):
        return node.name
    if not isinstance(node, ast.Assign):
        return ""
    target = node.targets[0]
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return ",".join(name.id for name in names if isinstance(name, ast.Name))


def _lines(node: ast.stmt, code: set[int]) -> int:
    text = node.value.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) else None
    if isinstance(text, str):  # a CUDA kernel
        lines = (line.strip() for line in text.splitlines())
        return sum(1 for line in lines if line and not line.startswith("//"))
    first = node.lineno
    docstring: set[int] = set()
    if isinstance(node, ast.FunctionDef):
        first = min([first, *(decorator.lineno for decorator in node.decorator_list)])
        if ast.get_docstring(node) is not None:
            docstring = set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    assert node.end_lineno is not None
    return len((code & set(range(first, node.end_lineno + 1))) - docstring)


def _code_lines(source: str) -> set[int]:
    """The numbers of lines that have more than a comment."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {n for t in tokens if t.type not in layout for n in range(t.start[0], t.end[0] + 1)}


def counts() -> dict[str, tuple[int, int]]:
    """The lines of ours and of the peer, by example."""
    return {
        name: (
            lines_of((OURS / f"{name}.py").read_text(encoding="utf-8"), row.ours.split()),
            lines_of((PEERS / f"{name}.py").read_text(encoding="utf-8"), row.peer.split()),
        )
        for name, row in ROWS.items()
    }


def result() -> dict[str, Any]:
    counted = counts()
    ratios = {name: ours / peer for name, (ours, peer) in counted.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    return {
        "name": "python_lines",
        "title": "Lines of kernels in Python",
        "about": "The kernels of examples/python and their launches beside the same in Triton, or in CUDA called by CuPy "
        "(bench/python_peers), as Ruff formats them.  Decorators and constants count, as do the lines of CUDA's texts; "
        "blank lines, comments, docstrings and imports do not.",
        "date": today(),
        "machine": machine(),
        "versions": {},
        "absent": [],
        "tables": [
            {
                "caption": "Lines of kernels and launches",
                "columns": ["example", "ours", "peer", "lines of the peer", "ours / peer"],
                "rows": [
                    [
                        f"[{name}](../examples/python/{name}.py)",
                        str(ours),
                        ROWS[name].language,
                        str(peer),
                        f"{ratios[name]:.2f}",
                    ]
                    for name, (ours, peer) in counted.items()
                ],
            }
        ],
        "targets": [
            {
                "what": f"at most {MOST} times the lines of the peer",
                "measured": f"{ratios[worst]:.2f} at worst, of {worst}",
                "met": ratios[worst] <= MOST,
            }
        ],
        "samples": counted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    save(parser.parse_args().results / "python_lines.json", result())


if __name__ == "__main__":
    main()
