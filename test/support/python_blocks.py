"""The Python of a document as modules that a type checker reads:  python -m support.python_blocks docs/reference/python.md FOLDER

Blocks marked `pycon` are one session, in which names are bound again to other things.  So each block is a module, which
imports the names that it takes from the blocks before it.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import re
import sys
from pathlib import Path

__all__ = ["write_modules"]

BLOCK = re.compile(r"^```(pycon|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def write_modules(document: Path, folder: Path) -> list[Path]:
    """A module for each block, in order.  Lines have the numbers that they have in the document."""
    text = document.read_text(encoding="utf-8")
    owners: dict[str, str] = {}
    modules = []
    for match in BLOCK.finditer(text):
        line = text[: match.start(2)].count("\n")
        name = f"{document.stem}_line_{line}"
        is_session = match[1] == "pycon"
        source = _typed_at_prompts(match[2]) if is_session else match[2]
        needed, bound = _names(ast.parse(source))
        before = "; ".join(
            f"from {owners[n]} import {n} as {n}" for n in sorted(needed) if is_session and n in owners
        )
        modules.append(folder / f"{name}.py")
        modules[-1].write_text(f"{before}{chr(10) * line}{source}", encoding="utf-8")
        if is_session:
            owners |= dict.fromkeys(bound, name)
    return modules


def _typed_at_prompts(session: str) -> str:
    """What is typed, each line in the place of its own; what is printed is left out."""
    lines = [""] * session.count("\n")
    for example in doctest.DocTestParser().get_examples(session):
        typed = example.source.splitlines()
        lines[example.lineno : example.lineno + len(typed)] = typed
    return "\n".join(lines) + "\n"


def _names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that a module uses before it binds them at its top, and those that it binds there.

    A body of a function is read where the function is defined, as a kernel's names are.
    """
    needed: set[str] = set()
    bound: set[str] = set()
    for statement in tree.body:
        nodes = list(ast.walk(statement))
        loaded = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        inner = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        inner |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        inner |= {
            a.asname or a.name for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names
        }
        own = {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            needed |= loaded - inner - own - bound
            bound.add(statement.name)
        else:
            needed |= loaded - bound
            bound |= inner | own
    return needed - vars(builtins).keys(), bound


if __name__ == "__main__":
    for path in write_modules(Path(sys.argv[1]), Path(sys.argv[2])):
        print(path)
