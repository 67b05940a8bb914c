"""`--list-passes`."""

from __future__ import annotations

import dataclasses
from typing import get_type_hints

from ..passes.pipeline_text import DEFAULT, DEFAULT_PIPELINE
from ..passes.registry import Pass, find_pass, option_type, pass_names

__all__ = ["pass_list"]


def pass_list() -> str:
    """Every pass with its summary, and below it its options with type and default; then -O."""
    names = pass_names()
    width = max(len(name) for name in names)
    lines: list[str] = []
    for name in names:
        try:
            found = find_pass(name)
        except Exception as broken:  # one bad plugin must not hide the rest
            lines.append(f"{name:<{width}}  cannot be loaded: {type(broken).__name__}: {broken}")
            continue
        lines.append(f"{name:<{width}}  {found.summary}")
        lines += [f"{'':<{width}}    {option}" for option in _options(found)]
    lines.append(f"\n-O, --pass={DEFAULT}:\n  {','.join(DEFAULT_PIPELINE)}")
    return "\n".join(lines) + "\n"


def _options(found: type[Pass]) -> list[str]:
    hints = get_type_hints(found.Options)
    shown = []
    for field in dataclasses.fields(found.Options):
        default = field.default if isinstance(field.default, str) else str(field.default).lower()
        kind = option_type(hints[field.name]).__name__.upper()
        shown.append(f"{field.name}={kind}  (default {default})")
    return shown
