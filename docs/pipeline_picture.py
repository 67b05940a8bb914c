"""docs/images/attention_row.svg, a pipeline before and after its passes:  python docs/pipeline_picture.py

The drawings and their style are those of `vyre-opt -O --emit=html`, side by side in one image.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from vyre_opt import parse_file
from vyre_opt.report.reports import Report

ROOT = Path(__file__).resolve().parents[1]
PIPELINE = ROOT / "examples/pipelines/attention_row.vyre"
PICTURE = ROOT / "docs/images/attention_row.svg"

GAP, HEAD = 48, 26
"""Pixels between the drawings, and above each for its title."""

__all__ = ["PICTURE", "picture"]


def picture(path: Path = PIPELINE) -> str:
    """The drawings of the one pipeline of a file, as an SVG that stands alone."""
    page = Report(parse_file(path)).html()
    drawings = re.findall(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*?)</svg>', page, re.DOTALL)
    x, parts = 8.0, []
    for title, (width, _, content) in zip(("Before", "After -O"), drawings, strict=True):
        content = re.sub(
            r"<title.*?</title>\n?|<desc.*?</desc>\n?|<g class=\"marks\">.*", "", content, flags=re.DOTALL
        )
        parts.append(
            f'<g transform="translate({x:g} {HEAD})"><text y="-9" class="title">{title}</text>{content}</g>'
        )
        x += float(width) + GAP
    height = HEAD + max(float(height) for _, height, _ in drawings) + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="report" viewBox="0 0 {x - GAP:g} {height:g}" width="{x - GAP:g}" height="{height:g}">\n'
        f'<style>\n{_style()}</style>\n<rect width="100%" height="100%" rx="8" class="ground"/>\n'
        f"{''.join(parts)}\n</svg>\n"
    )


def _style() -> str:
    """The colours of the page, and its rules for what is drawn."""
    css = resources.files("vyre_opt.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    colours, rules = (
        css[: css.index(".report {\n  background")],
        css[css.index("  svg text") : css.index("\nbody.report")],
    )
    return f"{colours}.report {{\n  .ground {{ fill: var(--code); }}\n{rules.replace('  svg ', '  ').replace(', svg ', ', ')}\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
