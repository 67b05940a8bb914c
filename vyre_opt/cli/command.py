"""What both tools add to click: options in groups, values that may be left out, completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

__all__ = [
    "GroupedCommand",
    "GroupedOption",
    "checked",
    "complete_passes",
    "completion_script",
    "default_passes",
    "flag",
    "fusion_limits",
    "option",
]

SHELLS = ("bash", "zsh", "fish")


class GroupedOption(click.Option):
    """An option listed under `group` in the help."""

    def __init__(self, *args: Any, group: str = "Other", **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help lists options by group.

    `bare` maps an option to the value that it has when it is given without one; click's
    own way would take the file name after it for the value.
    """

    def __init__(self, *args: Any, bare: Mapping[str, str] | None = None, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.bare = bare or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        last = args.index("--") if "--" in args else len(args)
        full = [f"{a}={self.bare[a]}" if a in self.bare and i < last else a for i, a in enumerate(args)]
        return super().parse_args(ctx, full)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(param, "group", "Other"), []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{self.epilog}" if self.epilog else "")


def option(*names: str, group: str, **rest: Any) -> Any:
    """A click option in a group of the help."""
    return click.option(*names, cls=GroupedOption, group=group, **rest)


def flag(name: str, help: str, group: str, *dest: str) -> Any:
    return option(name, *dest, is_flag=True, help=help, group=group)


def checked(check: Callable[[str], Any]) -> Callable[..., Any]:
    """An option's callback: `check` of its value, or of each; a ValueError becomes a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if param.multiple:
                return tuple([check(one) for one in value])
            return None if value is None else check(value)
        except ValueError as wrong:
            raise click.BadParameter(str(wrong)) from None

    return callback


def _threshold(text: str) -> float:
    """A number of elements above zero, `inf` among them.  Raises ValueError."""
    try:
        threshold = float(text)
    except ValueError:
        threshold = 0.0
    if not threshold > 0:
        raise ValueError(f"{text!r} is not a number above zero")
    return threshold


def fusion_limits(group: str) -> Callable[[Any], Any]:
    """The options of -O that limit what is fused."""

    def add(command: Any) -> Any:
        command = option(
            "--max-group-bytes",
            metavar="N",
            type=click.IntRange(min=0),
            help="With -O: join no launches whose buffers hold more bytes in all; 0 for any number.",
            group=group,
        )(command)
        return option(
            "--fusion-threshold",
            metavar="T",
            callback=checked(_threshold),
            help="With -O: join no launches whose fusion pressure is above T elements a link.",
            group=group,
        )(command)

    return add


def default_passes(given: dict[str, Any]) -> str:
    """The passes of -O within the limits of `fusion_limits`, which are taken out of `given`; empty without -O."""
    limits = {name: given.pop(name) for name in ("fusion_threshold", "max_group_bytes")}
    if not given.pop("optimize"):
        for name, limit in limits.items():
            if limit is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} is of -O")
        return ""
    from ..passes.pipeline_text import default_pipeline

    return default_pipeline(**limits)


def completion_script(command: click.Command, shell: str) -> str:
    """The script that makes `shell` complete the options and values of `command`."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    name = command.name or ""
    assert found is not None
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    return found(command, {}, name, variable).source() + "\n"


def complete_passes(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[str]:
    """The names of passes that go on from the last one typed."""
    from ..passes.pipeline_text import DEFAULT
    from ..passes.registry import pass_names

    head, comma, last = incomplete.rpartition(",")
    return [
        f"{head}{comma}{name}" for name in [*pass_names(), DEFAULT] if name.startswith(last.replace("-", "_"))
    ]
