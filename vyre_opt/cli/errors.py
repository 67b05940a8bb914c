"""How a tool behaves: exit codes, closed pipes, Ctrl-C, and what a bug looks like.

0    done
1    a diagnosed error: of the input, of a file, of a run
2    a wrong command line
130  interrupted
A reader that closes its end of the pipe ends the tool as it ends `cat`: by SIGPIPE.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterable, Sequence

import click

from ..ir.diagnostics import Diagnostic, DiagnosticError, render

__all__ = [
    "ToolError",
    "command_line",
    "complain",
    "report_bug",
    "run",
    "show",
    "use_color",
    "write_stderr",
    "write_stdout",
    "write_stdout_bytes",
]

DEBUG = "VYRE_DEBUG"


class ToolError(Exception):
    """A diagnosed error without a place in a text.  Its message is for the user."""


def run(command: click.Command, args: Sequence[str] | None = None) -> int:
    """Run a tool on `args` (of the process, if None) and return its exit code."""
    gc.disable()  # one short run: what it makes lives to its end, so collecting only costs
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    given = sys.argv[1:] if args is None else list(args)
    atexit.register(gc.freeze)  # nor does the interpreter's last collection find anything worth its time
    name = command.name or "vyre"
    try:
        return command.main(list(given), prog_name=name, standalone_mode=False) or 0
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except ToolError as failed:
        complain(str(failed))
    except DiagnosticError as failed:
        show(failed.diagnostics, use_color("auto"))
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:  # where there is no SIGPIPE
        _drop_stdout()
    except MemoryError as short:
        complain(f"out of memory{': ' if str(short) else ''}{short}")
    except Exception as bug:
        report_bug(bug, command_line(name, given))
    return 1


def command_line(name: str, args: Sequence[str]) -> str:
    """The command as a shell reads it."""
    import shlex

    return shlex.join([name, *args])


def show(diagnostics: Iterable[Diagnostic], color: bool) -> None:
    """Diagnostics on stderr, with their source lines."""
    write_stderr("".join(f"{render(d, color)}\n" for d in diagnostics))


def complain(message: str) -> None:
    """An error without a place, on stderr."""
    write_stderr(f"error: {message}\n")


def report_bug(bug: Exception, again: str) -> None:
    """Say in a few lines what went wrong inside, and how to make it happen again."""
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        import traceback

        write_stderr("".join(traceback.format_exception(bug)))
    where = ""
    frame = bug.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        where = f"{code.co_filename}:{frame.tb_lineno} in {code.co_qualname}"
        frame = frame.tb_next
    message = " ".join(str(bug).split())[:300]
    write_stderr(
        f"internal error: {type(bug).__name__}{': ' if message else ''}{message}\n"
        + "".join(f"  {note}\n" for note in getattr(bug, "__notes__", ()))
        + f"  at {where}\n"
        + f"This is a bug, not a fault of the input. To see it again:\n  {again}\n"
        + f"{DEBUG}=1 shows the whole traceback.\n"
    )


def write_stdout(text: str) -> None:
    """Write the result as UTF-8."""
    write_stdout_bytes(text.encode())


def write_stdout_bytes(content: bytes) -> None:
    """Write the result: in one call, and flushed, so that an error is seen here."""
    if sys.stdout is None:
        raise ToolError("stdout is closed")
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as failed:
        _drop_stdout()
        raise ToolError(f"cannot write to stdout: {failed.strerror}") from None


def write_stderr(text: str) -> None:
    """Write a message; where nobody can read it, nothing is said."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            pass


def _drop_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's last flush is quiet."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass


def use_color(choice: str) -> bool:
    """Whether messages are coloured: `choice` is auto, always or never."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stderr is not None and sys.stderr.isatty()
