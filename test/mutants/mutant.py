"""A mistake in the code, as a replacement of text, and the test that it breaks."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Mutant", "lit"]


class Mutant(NamedTuple):
    """`old`, which stands once in the file `path`, becomes `new`; then `test`, a pytest node, fails.

    `equivalent`: why no result can differ, for a mistake that is none.  `test` then passes.
    """

    title: str
    path: str
    old: str
    new: str
    test: str
    equivalent: str = ""

    @property
    def file(self) -> str:
        """The file as the page shows it: within the package."""
        return self.path.removeprefix("vyre_opt/")


def lit(name: str) -> str:
    """The node of a lit test: `lit("lowering/ptx_memory")`."""
    return f"test/test_lit.py::test_lit[{name}.vyre]"
