"""The manual pages of docs/man, made from the commands:  python docs/man_pages.py

A wheel installs them in share/man/man1.  (click-man leaves out the groups of options, the examples and the exit codes.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

from vyre_opt import __version__

__all__ = ["FOLDER", "PAGES", "command_of", "manual"]

FOLDER = Path(__file__).resolve().parent / "man"
PAGES = ("vyre-cache", "vyre-lsp", "vyre-opt", "vyre-pack", "vyre-reduce", "vyre-run", "vyre-scan")


def manual(tool: str) -> str:
    """The page of a tool, in the macros of man(7)."""
    return "".join(f"{line}\n" for line in _lines(tool, command_of(tool)))


def command_of(tool: str) -> click.Command:
    """The command that is installed by this name."""
    name = tool.removeprefix("vyre-")
    module = "vyre_scan.tool.command" if name == "scan" else f"vyre_opt.cli.{name}"
    command: click.Command = import_module(module).command
    return command


def _lines(tool: str, command: click.Command) -> Iterator[str]:
    yield f'.TH "{tool.upper()}" "1" "" "vyre-opt {__version__}" "User Commands"'
    yield from (".SH NAME", rf"{_roff(tool)} \- {_roff(_summary(command))}")
    yield from (".SH SYNOPSIS", f".B {_roff(tool)}", _roff(_usage(command)))
    yield from (".SH DESCRIPTION", _roff(command.help or ""))
    yield ".SH OPTIONS"
    yield from _options(command)
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for name, sub in command.commands.items():
            yield from (f".SS {_roff(f'{name} {_usage(sub)}'.strip())}", _roff(sub.help or ""))
            yield from _options(sub)
    yield from _epilog(command.epilog or "")
    others = [f".BR {_roff(page)} (1)" for page in PAGES if page != tool]
    yield from (".SH SEE ALSO", " ,\n".join(others))


def _summary(command: click.Command) -> str:
    """The first sentence, as whatis(1) lists it."""
    return re.split(r"[.;](?= |$)", command.help or "")[0]


def _usage(command: click.Command) -> str:
    words = ["[OPTIONS]"] * any(isinstance(param, click.Option) for param in command.params)
    words += ["COMMAND [ARGS]..."] * isinstance(command, click.Group)
    for param in command.params:
        if isinstance(param, click.Argument):
            name = param.metavar or (param.name or "").upper()
            words.append(name if param.required or param.metavar else f"[{name}]")
    return " ".join(words)


def _options(command: click.Command) -> Iterator[str]:
    """Options in their groups, as the help has them."""
    groups: dict[str, list[click.Option]] = {}
    for param in command.params:
        if isinstance(param, click.Option):
            groups.setdefault(getattr(param, "group", "Other"), []).append(param)
    for group, options in groups.items():
        if len(groups) > 1:
            yield f".SS {group}"
        for option in options:
            yield from (".TP", _names(option), _roff(_help(option)))


def _names(option: click.Option) -> str:
    names = ", ".join(rf"\fB{_roff(name)}\fR" for name in option.opts)
    if option.secondary_opts:
        names += ", " + ", ".join(rf"\fB{_roff(name)}\fR" for name in option.secondary_opts)
    if option.is_flag:
        return names
    value = option.metavar
    if value is None:
        value = (
            "|".join(option.type.choices)
            if isinstance(option.type, click.Choice)
            else option.type.name.upper()
        )
    return rf"{names} \fI{_roff(value)}\fR"


def _help(option: click.Option) -> str:
    text = option.help or ""
    is_shown = isinstance(option.default, (str, int, float)) and not isinstance(option.default, bool)
    return f"{text} Default: {option.default}." if is_shown and option.default else text


def _epilog(text: str) -> Iterator[str]:
    """The examples and the exit codes as sections of their own, and the rest as notes."""
    examples = re.search(r"^Examples:\n((?: .*\n)+)", text, re.MULTILINE)
    code = re.search(r"^Exit code: (.*)\n", text, re.MULTILINE)
    if examples:
        yield from (".SH EXAMPLES", ".nf", *map(_roff, examples[1].splitlines()), ".fi")
        text = text.replace(examples[0], "")
    if code:
        yield from (".SH EXIT STATUS", f"{_roff(code[1])}")
        text = text.replace(code[0], "")
    if text.strip():
        yield ".SH NOTES"
        for paragraph in text.strip().split("\n\n"):
            yield ".PP"
            for line in paragraph.splitlines():
                if re.match(r"\w+: ", line):
                    yield ".PP"
                yield _roff(line)


def _roff(text: str) -> str:
    """Text that roff takes as it is."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for page in PAGES:
        (FOLDER / f"{page}.1").write_text(manual(page), encoding="utf-8")
