"""The names of targets, as both tools take them, and the PTX versions."""

from __future__ import annotations

from ..ir.diagnostics import suggest
from ..lowering.nvptx.targets import GPUS, PtxVersion, TargetError, parse_version

__all__ = ["TARGETS", "check_ptx_version", "check_target"]

TARGETS = ("ref", "cpu", *GPUS)


def check_target(name: str) -> str:
    """`name`, if a target has it.  Raises ValueError that lists the targets."""
    if name not in TARGETS:
        hint = suggest(name, TARGETS)
        raise ValueError(
            f"unknown target {name!r}; targets are {', '.join(TARGETS)}" + (f"; {hint}" if hint else "")
        )
    return name


def check_ptx_version(text: str) -> PtxVersion:
    """`8.6` as a version.  Raises ValueError that lists those there are."""
    try:
        return parse_version(text)
    except TargetError as unknown:
        raise ValueError(str(unknown)) from None
