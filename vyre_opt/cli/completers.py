"""Completions for a shell: passes and their options, targets, files.  Each is a `shell_complete` of click's parameters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["complete_assigned_files", "complete_files", "complete_passes", "complete_vyre_files", "paths"]


def complete_passes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The last pass of a list, or its options: `cse,unr` to `cse,unroll`, `unroll{fa` to `unroll{factor=`."""
    name, brace, options = incomplete[incomplete.rfind("}") + 1 :].rpartition(",")[2].partition("{")
    if brace:
        last = options.rpartition(" ")[2]
        choices = [f"{option}=" for option in _options_of(name)]
    else:
        from ..passes.pipeline_text import DEFAULT
        from ..passes.registry import pass_names

        last, choices = name, [*pass_names(), DEFAULT]
    head = incomplete[: len(incomplete) - len(last)]
    return [f"{head}{choice}" for choice in choices if choice.startswith(last.replace("-", "_"))]


def _options_of(name: str) -> list[str]:
    from dataclasses import fields

    from ..passes.registry import PassError, find_pass

    try:
        return [field.name for field in fields(find_pass(name).Options)]
    except PassError:
        return []


def complete_vyre_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders, and files that end in .vyre."""
    return [*paths(incomplete, ".vyre")]


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders and files."""
    return [*paths(incomplete)]


def complete_assigned_files(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The file in NAME=FILE."""
    name, equals, path = incomplete.partition("=")
    return [*paths(path, head=f"{name}=")] if equals else []


def paths(incomplete: str, ending: str = "", head: str = "") -> Iterator[CompletionItem]:
    """Folders, and files of an ending, whose names begin as `incomplete` does; each after `head`."""
    from click.shell_completion import CompletionItem

    folder, name = os.path.split(incomplete)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or os.curdir), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.name.startswith(name) or (entry.name.startswith(".") and not name.startswith(".")):
            continue
        path = os.path.join(folder, entry.name)
        if entry.is_dir():
            yield CompletionItem(f"{head}{path}/", "path")
        elif entry.name.endswith(ending):
            yield CompletionItem(f"{head}{path}", "path")
