"""vyre-lsp: the language server, which editors start."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from . import errors
from .command import GroupedCommand, common_options, max_input_option, option
from .text_files import ceiling

__all__ = ["command", "main"]

EPILOG = """\
It speaks the Language Server Protocol on stdin and stdout; docs/guides/editors.md says how editors are set up.
Exit code: 0 after shutdown and exit, 1 for an error, 2 for usage.
"""


@click.command("vyre-lsp", cls=GroupedCommand, epilog=EPILOG, context_settings={"max_content_width": 100})
@option("--stdio", "Speak on stdin and stdout, as it does in any case.", is_flag=True)
@max_input_option("64M")
@common_options("vyre-lsp")
def command(stdio: bool) -> int:
    """Serve editors: diagnostics, completion, hover, names and formatting of .vyre files."""
    try:
        from ..lsp.framing import NoHeader
        from ..lsp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise errors.ToolError("vyre-lsp needs pygls: pip install 'vyre-opt[lsp]'") from None
    if sys.stdin is None or sys.stdout is None:
        raise errors.ToolError(f"{'stdin' if sys.stdin is None else 'stdout'} is closed")
    try:
        return serve(sys.stdin.fileno(), sys.stdout.buffer, ceiling()[0])
    except NoHeader as error:
        raise errors.ToolError(f"stdin is not the Language Server Protocol: {error}") from None


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-lsp script."""
    return errors.run_tool(command, args)
