"""Imported once by the process that all others are forked from: what is slow to import, load or make is there then."""

from __future__ import annotations

import llvmlite.binding  # noqa: F401

from vyre_opt.passes.registry import BUILTIN, find_pass
from vyre_opt.syntax.parser import tables

from .seed_texts import any_texts, runnable_texts
from .targets import TARGETS

__all__ = ["TARGETS"]

tables.load()
for name in BUILTIN:
    find_pass(name)
any_texts()
runnable_texts()
