"""Errors of a command-line tool: exit codes, closed pipes, Ctrl-C, and the report of a bug.

A reader that closes its end of the pipe ends the tool as it ends `cat`: by SIGPIPE.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import TextIO

import click

from ..ir.diagnostics import Diagnostic, DiagnosticError, render_all
from . import output_channel
from .time_limit import TimedOut, end_alarms, interrupt

__all__ = [
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "NOTHING_MATCHED",
    "SEARCH_FAILED",
    "WRONG_COMMAND_LINE",
    "ToolError",
    "print_bug_report",
    "print_diagnostics",
    "print_error",
    "run_tool",
    "system_refusal",
    "use_color",
    "write_stderr",
    "write_stdout",
    "write_stdout_bytes",
]

DEBUG = "VYRE_DEBUG"

DONE = 0
FAILED = 1
"""Exit code of a diagnosed error: of the input, of a file, of a run, of a limit that was broken; of vyre-pack diff of a difference."""
WRONG_COMMAND_LINE = 2
INTERRUPTED = 130

NOTHING_MATCHED = 1
SEARCH_FAILED = 2
"""Exit codes of vyre-scan, which are those of grep."""


class ToolError(Exception):
    """An error that is not located in a source text.  Its message is for the user."""


def run_tool(
    command: click.Command, args: Sequence[str] | None = None, name: str | None = None, failure: int = FAILED
) -> int:
    """Run a tool on `args` (of the process, if None) and return its exit code.

    `name`: what its messages call it, the name of the command if None.  `failure`: the code of an error.
    """
    gc.disable()  # a tool runs for a moment, and most objects live to its end: collecting only costs time
    if hasattr(signal, "SIGPIPE"):
        # Python turns it into an exception; a tool in a pipe ends quietly, as others do
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    argv = sys.argv[1:] if args is None else list(args)
    warnings.showwarning = _show_warning
    atexit.register(gc.freeze)  # spares the collection that the interpreter runs when it ends
    name = name or command.name or "vyre"
    try:
        if any(variable.endswith("_COMPLETE") for variable in os.environ):  # a shell asks, see `completion`
            from . import completion

            completion.register()
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see `start`
            signal.signal(signal.SIGINT, interrupt)
        return command.main(list(argv), prog_name=name, standalone_mode=False) or DONE
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        write_stderr(shown.getvalue())
        return error.exit_code
    except ToolError as error:
        print_error(_in_terms_of_limits(error))
    except DiagnosticError as error:
        print_diagnostics(error.diagnostics, use_color("auto"))
    except (KeyboardInterrupt, click.Abort):
        end_alarms()
        return _ended_early(INTERRUPTED)
    except TimedOut as error:
        end_alarms()
        print_error(str(error))
        return _ended_early(failure)
    except BrokenPipeError:  # where there is no SIGPIPE
        _discard(sys.stdout)
    except MemoryError as error:
        message = f"out of memory{': ' if str(error) else ''}{error}"
        print_error(_in_terms_of_limits(error) if output_channel.is_limited_child() else message)
    except Exception as bug:
        # Python 3.11 wraps what a signal raises while a class is made, in a module that is being imported
        if isinstance(bug.__cause__, KeyboardInterrupt):
            end_alarms()
            return _ended_early(INTERRUPTED)
        if isinstance(bug.__cause__, TimedOut):
            end_alarms()
            print_error(str(bug.__cause__))
            return _ended_early(failure)
        if refusal := system_refusal(bug):
            _print_traceback(bug)
            print_error(refusal)
            return failure
        from ..execution.variables import BadVariable

        if isinstance(bug, BadVariable):
            print_error(str(bug))
            return failure
        import shlex

        print_bug_report(bug, f"{name} {shlex.join(argv)}")
    return failure


def _ended_early(code: int) -> int:
    """The exit code; ends the process at once if a GPU is at work, for which an exit would wait."""
    waiting = sys.modules.get("vyre_opt.targets.cuda.waiting")
    if waiting is not None and waiting.has_given_up():
        waiting.exit_now(code)
    return code


def system_refusal(error: Exception) -> str:
    """Message about a refusal of the system or the installation; empty for an error that is a bug."""
    while isinstance(error.__cause__, (OSError, ImportError)):  # NumPy wraps what the loader says
        error = error.__cause__
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, ImportError):
        return f"cannot load a package: {error}"
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "the system starts no more threads for this user (see ulimit -u and ulimit -v)"
    return ""


def _in_terms_of_limits(error: Exception) -> str:
    """The message of an error; that of the limit `memory` where that is its cause."""
    if not output_channel.is_limited_child():
        return str(error)
    from ..execution.limits import memory_error

    return str(memory_error(error) or error)


def print_diagnostics(diagnostics: Iterable[Diagnostic], color: bool) -> None:
    """Print diagnostics on stderr, with their source lines."""
    write_stderr("".join(f"{text}\n" for text in render_all(diagnostics, color)))


def print_error(message: str) -> None:
    """Print an error that has no location, on stderr."""
    write_stderr(f"error: {message}\n")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of the library without its place, which says nothing to the user of a tool."""
    write_stderr(f"warning: {message}\n")


def print_bug_report(bug: Exception, command: str) -> None:
    """Print the exception and where it was raised in a few lines, and the command that reproduces it."""
    _print_traceback(bug)
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
        + f"This is a bug, not a fault of the input. To see it again:\n  {command}\n"
        + f"{DEBUG}=1 shows the whole traceback.\n"
    )


def _print_traceback(error: Exception) -> None:
    """Print all of an exception, where VYRE_DEBUG asks for that."""
    if os.environ.get(DEBUG) == "1":
        import traceback

        write_stderr("".join(traceback.format_exception(error)))


def write_stdout(text: str) -> None:
    """Write text to stdout as UTF-8; a file name that is not UTF-8 is written as the bytes that it is."""
    write_stdout_bytes(text.encode("utf-8", "surrogateescape"))


def write_stdout_bytes(content: bytes | memoryview) -> None:
    """Write to stdout in one call, and flush it, so that an error is raised here.  Raises ToolError."""
    if output_channel.deliver("", content):
        return
    if sys.stdout is None:
        raise ToolError("stdout is closed")
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard(sys.stdout)
        raise ToolError(f"cannot write to stdout: {error.strerror}") from None


def write_stderr(text: str) -> None:
    """Write a message to stderr; if that is closed, nothing happens."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null: the interpreter flushes it at exit, and would report the error again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass


def use_color(choice: str, stream: TextIO | None = None) -> bool:
    """Whether what goes to a stream, stderr if None, is coloured: `choice` is auto, always or never."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    stream = stream or sys.stderr
    return stream is not None and stream.isatty()
