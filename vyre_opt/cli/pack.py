"""vyre-pack: shows, checks, compares, merges and signs packs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from ..pack_files import compare, trust
from ..pack_files.format import Pack, PackError, read_pack
from ..worker import find_module, import_module
from . import errors
from .command import CommandGroup, common_options
from .text_files import write_file

__all__ = ["command", "main"]

EPILOG = """\
`vyre-opt kernels.vyre --emit=pack -o kernels.vyrepack` and vyre_opt.pack write packs; vyre_opt.packs.load runs them.
"""

FILE = click.Path()
CHECKER = "vyre_opt.checker"
"""Module that checks certificates; a build may lack it."""


@click.group(
    "vyre-pack",
    cls=CommandGroup,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
)
@common_options("vyre-pack")
@click.pass_context
def command(ctx: click.Context) -> int:
    """Show, check, compare, merge and sign packs of compiled kernels.  Nothing of a pack is run."""
    command.require_command(ctx)
    return errors.DONE


def _told(function: Callable[..., int]) -> Callable[..., int]:
    """The function, whose PackErrors are told as errors of the tool."""

    @wraps(function)
    def told(*args: Any, **kwargs: Any) -> int:
        try:
            return function(*args, **kwargs)
        except PackError as error:
            raise errors.ToolError(str(error)) from None

    return told


def _read(path: str) -> Pack:
    try:
        return read_pack(path)
    except OSError as error:
        raise errors.ToolError(f"cannot read {path}: {error.strerror}") from None


@command.command("list")
@click.argument("file", type=FILE)
@_told
def list_parts(file: str) -> int:
    """Show the parts of FILE, and what they are."""
    pack = _read(file)
    lines = [f"digest   {pack.digest}"]
    if pack.signature is not None:
        lines.append(f"signed   {trust.KEY_PREFIX}{pack.signature.key.hex()}")
    lines += [f"{name!s:8} {json.dumps(value)}" for name, value in sorted(pack.about.items())]
    for name in pack.names():
        about = "".join(
            f" {key}={json.dumps(value)}" for key, value in sorted(pack.about_part(name).items()) if value
        )
        lines.append(f"{pack.kind(name):11} {pack.size(name):9} {name}{about}")
    errors.write_stdout("\n".join(lines) + "\n")
    return errors.DONE


@command.command()
@click.argument("file", type=FILE)
@click.option(
    "--trusted", multiple=True, metavar="DIGEST|ed25519:KEY", help="Accept this pack or this key alone."
)
@_told
def verify(file: str, trusted: tuple[str, ...]) -> int:
    """Check every byte of FILE, whom it is by, and the certificate of each function."""
    pack = _read(file)
    pack.check()
    if trusted:
        trust.check_trust(pack, trusted)
    whom = "trusted" if trusted else "by whoever wrote it: no --trusted is given"
    errors.write_stdout(f"{file}: {len(pack.names())} parts are whole; {whom}\ndigest {pack.digest}\n")
    functions = [name.partition("/")[2] for name in pack.names("function")]
    certificates = {name.removeprefix("certificates/") for name in pack.names("certificate")}
    of = {name: sorted(c for c in certificates if c.partition("/")[0] == name) for name in functions}
    refused = [_is_refused(pack, each) for name in functions for each in of[name] or [name]]  # all are shown
    strangers = sorted(c for c in certificates if c.partition("/")[0] not in functions)
    if strangers:
        raise errors.ToolError(f"{file}: {', '.join(strangers)}: a certificate of no function of the pack")
    return errors.FAILED if any(refused) else errors.DONE


def _is_refused(pack: Pack, function: str) -> bool:
    """Show what the certificate of a function proves of its two texts; whether the checker refuses it.

    `function`: with the GPU that its passes were for, if they were for one.
    """
    name = f"certificates/{function}"
    if name not in pack:
        errors.write_stdout(f"{function}: trusted only: it has no certificate\n")
        return False
    if find_module(CHECKER) is None:
        raise errors.ToolError(
            f"{pack.name}: {name} is not checked, since this installation has no {CHECKER}"
        )
    parts = (f"texts/{function}", f"optimised/{function}", name)
    report = import_module(CHECKER).check(*[pack.read_text(part) for part in parts])
    errors.write_stdout("".join(f"{function}: {line}\n" for line in report.summary().splitlines()))
    return bool(report.is_refused)


@command.command()
@click.argument("one", type=FILE)
@click.argument("other", type=FILE)
@_told
def diff(one: str, other: str) -> int:
    """Show the parts in which two packs differ; exit code 1 if any do."""
    lines = compare.differences(_read(one), _read(other))
    errors.write_stdout("".join(f"{line}\n" for line in lines))
    return errors.FAILED if lines else errors.DONE


@command.command()
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option("-o", "--output", type=FILE, required=True, metavar="FILE", help="Write here.")
@_told
def merge(files: tuple[str, ...], output: str) -> int:
    """Write one pack of all parts of FILES."""
    write_file(compare.merged([_read(file) for file in files]), output)
    return errors.DONE


@command.command()
@click.argument("file", type=FILE)
@click.argument("part")
@click.option("-o", "--output", type=FILE, required=True, metavar="FILE", help="Write here.")
@_told
def extract(file: str, part: str, output: str) -> int:
    """Write the part PART of FILE, as `list` names it."""
    write_file(_read(file).read(part), output)
    return errors.DONE


@command.command()
@click.argument("file", type=FILE)
@click.option(
    "--key", type=FILE, required=True, metavar="FILE", help="The 32 bytes of an Ed25519 private key."
)
@click.option("-o", "--output", type=FILE, required=True, metavar="FILE", help="Write here.")
@_told
def sign(file: str, key: str, output: str) -> int:
    """Write FILE with a signature, and show the key that trusted= takes."""
    try:
        with open(key, "rb") as opened:
            private = opened.read(64)
    except OSError as error:
        raise errors.ToolError(f"cannot read {key}: {error.strerror}") from None
    write_file(trust.signed(_read(file), private), output)
    errors.write_stdout(f"{trust.public_key(private)}\n")
    return errors.DONE


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-pack script."""
    return errors.run_tool(command, args)
