"""The site of these documents:  make docs

Sphinx reads the Markdown files as they are, and the API from docstrings, which are plain text: `as_restructured_text`
turns what they use of it (words in backticks, indented blocks) into what Sphinx reads.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

_METADATA = metadata("vyre-opt")
_URLS = dict(url.split(", ", 1) for url in _METADATA.get_all("Project-URL") or ())

project = "vyre-opt"
author = "the authors of vyre-opt"
version = release = _METADATA["Version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "man", "*.ipynb"]
nitpicky = True
highlight_language = "text"
pygments_style, pygments_dark_style = "friendly", "monokai"

html_theme = "furo"
html_title = f"vyre-opt {release}"
html_theme_options = {
    "source_repository": _URLS["Source"],
    "source_branch": "main",
    "source_directory": "docs/",
}
html_show_sphinx = False
html_show_copyright = False

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["torch", "pycuda"]

# Signatures name types of other projects, and of ours some that a caller never names.  Other references must lead somewhere.
nitpick_ignore_regex = [("py:class", ".*")]

_SOURCE_LINK = re.compile(r"\]\(\.\./\.\./([^)\s]+)\)")


def link_to_source(app: Any, docname: str, source: list[str]) -> None:
    """Links to files of the checkout that are no pages lead to the repository."""
    source[0] = _SOURCE_LINK.sub(rf"]({_URLS['Source']}/blob/main/\1)", source[0])


def as_restructured_text(
    app: Any, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """A docstring's plain text as reStructuredText, in place."""
    paragraphs = "\n".join(lines).split("\n\n")
    lines[:] = "\n\n".join(map(_paragraph, paragraphs)).splitlines()


def _paragraph(text: str) -> str:
    """Code if it is indented; else words in backticks are code, and what reStructuredText takes for markup is not."""
    if text.startswith("    "):
        return f"::\n\n{text}"
    spans = text.split("`")
    spans[::2] = [re.sub(r"[\\*|]|_\b", r"\\\g<0>", span) for span in spans[::2]]
    spans[1::2] = [f"``{span}``\\ " for span in spans[1::2]]
    return "".join(spans)


def make_pages(app: Any) -> None:
    """Write the pages that are made of recorded measurements."""
    subprocess.run([sys.executable, Path(__file__).with_name("generated_pages.py")], check=True)


def setup(app: Any) -> None:
    app.connect("builder-inited", make_pages)
    app.connect("source-read", link_to_source)
    app.connect("autodoc-process-docstring", as_restructured_text)
