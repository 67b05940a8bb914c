"""The site of the documents: every page and every public name is in it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import vyre_opt
import vyre_opt.lang

DOCS = Path(__file__).resolve().parents[2] / "docs"
API = sorted((DOCS / "reference/api").glob("*.rst"))


def on_pages(module: str) -> set[str]:
    """The names that the pages of the API describe of a module."""
    names: set[str] = set()
    for page in API:
        current = ""
        for directive, argument in re.findall(
            r"^\.\. (\w+):: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            if directive == "currentmodule":
                current = argument
            elif directive.startswith("auto") and any(
                f"{place}.".startswith(f"{module}.") for place in (current, argument)
            ):
                names.add(argument.rpartition(".")[2])
    return names


FACES = [f"vyre_opt.{face}" for face in vars(vyre_opt)["_FACES"]]


@pytest.mark.parametrize(
    "module", ["vyre_opt", "vyre_opt.kernels", "vyre_opt.lang", "vyre_opt.packs", "vyre_scan", *FACES]
)
def test_public_names_are_described(module: str) -> None:
    public = set(import_module(module).__all__)
    if module == "vyre_opt":
        packages = {name.rpartition(".")[2] for name in FACES}
        public -= {"__version__", "kernels", "lang", "packs", "Scanner"} | packages
    if module == "vyre_opt.execution":
        public -= {"compile", "run", "debug", "profile", "synchronize"}  # described as names of vyre_opt
    if module == "vyre_opt.lang":  # scalar types and namespaces of kernels are described as such
        objects = {name: getattr(vyre_opt.lang, name) for name in public}
        scalars = {name for name, item in objects.items() if hasattr(item, "itemsize")}
        public -= (scalars - {"Scalar"}) | {"decode", "scan", "math", "tt"}
    assert public - on_pages(module) == set()


def test_every_page_has_a_place_in_the_table_of_contents() -> None:
    for index, pages in (
        (
            DOCS / "index.md",
            (path for path in DOCS.glob("*/*.md") if path.parent.name not in ("_build", "generated")),
        ),
        (DOCS / "reference/api/index.rst", API),
    ):
        listed = {line.strip() for line in index.read_text(encoding="utf-8").splitlines()}
        names = {str(path.relative_to(index.parent).with_suffix("")) for path in pages}
        assert names - listed == {"index"} & names, f"{index} does not list them"
