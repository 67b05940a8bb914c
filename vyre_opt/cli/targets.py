"""The names of targets, as both tools take them."""

from __future__ import annotations

from ..ir.diagnostics import suggest

__all__ = ["TARGETS", "check_target"]

GPUS = tuple(
    f"sm_{arch}"
    for arch in "70 72 75 80 86 87 89 90 90a 100 100a 101 101a 103 103a 120 120a 121 121a".split()
)

TARGETS = ("ref", "cpu", *GPUS)


def check_target(name: str) -> str:
    """`name`, if a target has it.  Raises ValueError that lists the targets."""
    if name not in TARGETS:
        hint = suggest(name, TARGETS)
        raise ValueError(
            f"unknown target {name!r}; targets are {', '.join(TARGETS)}" + (f"; {hint}" if hint else "")
        )
    return name
