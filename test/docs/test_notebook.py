"""The notebook shows what its cells print now."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs/tutorials/kernels_in_python.ipynb"


def printed(source: str, name: str, names: dict[str, Any]) -> str:
    """What a notebook prints for a cell: its output, and the value of an expression at its end."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if value is not None:
                print(repr(value))
    return output.getvalue().rstrip("\n")


def saved(cell: dict[str, Any]) -> str:
    texts = [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
    return "".join("".join(text) for text in texts).rstrip("\n")


def test_cells_print_what_is_saved() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [c for c in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    assert sum(bool(cell["outputs"]) for cell in cells) >= 6
    for number, cell in enumerate(cells, 1):
        assert cell["execution_count"] == number
        now = printed("".join(cell["source"]), f"In[{number}]", names)
        assert now == saved(cell), "run: make notebook"


def test_a_cell_is_named_as_a_notebook_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    import vyre_opt

    compiler = SimpleNamespace(
        format_code_name=lambda name: ("Cell", "In[3]") if name == "/tmp/k/1.py" else None
    )
    shell = SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    names: dict[str, Any] = {}
    printed(
        "import vyre_opt\nfrom vyre_opt.lang import *\n"
        "@vyre_opt.program\ndef k(x: Write[u32]):\n    x[0] = 1 / 2\n",
        "/tmp/k/1.py",
        names,
    )
    with pytest.raises(vyre_opt.DiagnosticError, match=r"^In\[3\]:5:12: error: "):
        names["k"].text()
