"""Reproducers: a .vyre file whose first line holds the command that failed on the rest.

// vyre-opt --pass-pipeline=cse --no-verify-each
// vyre-opt 0.1.0: an internal error while running pass cse, of the pipeline inline,cse,dce
//
// Traceback (most recent call last):
//   ...
vyre 1
...

It has the module as the failing pass found it, and that pass alone, if the pass fails so too; else the whole text and
the whole pipeline.
"""

from __future__ import annotations

import re
import shlex
import tempfile
import traceback
from collections.abc import Sequence
from secrets import token_hex
from typing import TYPE_CHECKING

from blake3 import blake3

from .. import __version__
from ..cache_files.folder import Folder, check_folder
from ..ir.diagnostics import Source, printable
from ..mlir.file_kind import is_mlir, parse_either
from ..syntax.printer import print_program
from . import output_channel
from .errors import ToolError, write_stderr
from .text_files import write_text

if TYPE_CHECKING:
    from ..passes.manager import PassManager
    from ..passes.registry import Pass
    from .compile_options import CompileOptions
    from .run_options import RunOptions
    from .session import InternalError

__all__ = ["command", "note_failure", "read", "run_again", "text", "write"]

_COMMAND = re.compile(r"^// vyre-opt (--.*)$", re.MULTILINE)
_HEAD = re.compile(r"(?:[ \t]*(?://[^\n]*)?(?:\n|\Z))*")


def command(options: CompileOptions, pipeline: str, is_local: bool = False) -> list[str]:
    """The options that decide how a module is compiled; `is_local`: by one pass, with specialization constants bound."""
    args = [f"--pass-pipeline={pipeline}"] if pipeline else []
    if not is_local:
        args += [f"--spec={name}={value}" for name, value in options.spec]
    if not options.verify_each:
        args.append("--no-verify-each")
    if options.target:
        args.append(f"--target={options.target}")
    if options.opt_bisect_limit is not None and not is_local:
        args.append(f"--opt-bisect-limit={options.opt_bisect_limit}")
    if options.emit != "vyre" and not is_local:
        args.append(f"--emit={options.emit}")
    return args or ["--verify-each"]


def text(options: CompileOptions, manager: PassManager | None, error: InternalError) -> str:
    """The reproducer of an internal error."""
    from ..passes.pipeline_text import format_pipeline

    pipeline = format_pipeline(manager.passes) if manager is not None else ""
    argv, module = command(options, pipeline), error.source.text
    if manager is not None and error.failing is not None and options.opt_bisect_limit is None:
        local = _module_before(options, manager, error.source, error.failing)
        failing = manager.passes[error.failing]
        if local is not None and _fails_alike(local, failing, manager, error.bug):
            argv, module = command(options, str(failing), is_local=True), local
    of_pipeline = f", of the pipeline {pipeline}" if pipeline else ""
    notes = f"vyre-opt {__version__}: an internal error while {error.step}{of_pipeline}\n\n{_traceback(error.bug)}"
    comments = "".join(f"// {printable(line)}".rstrip() + "\n" for line in notes.splitlines())
    return f"// vyre-opt {shlex.join(argv)}\n{comments}{module}"


def _traceback(bug: Exception) -> str:
    return "".join(traceback.format_exception(bug))


def _module_before(options: CompileOptions, manager: PassManager, source: Source, failing: int) -> str | None:
    """The module as pass number `failing` of the pipeline found it; None if that cannot be had."""
    from ..passes.manager import PassManager
    from ..specialization.binding import bind

    try:
        module = parse_either(source)
        bind(module, options.spec)
        # the passes ran once already, so that nothing they say is new
        PassManager(manager.passes[:failing], verify_each=False, target=manager.target).run(module)
        return print_program(module)
    except Exception:
        return None


def _fails_alike(module: str, failing: Pass, manager: PassManager, bug: Exception) -> bool:
    """Whether a pass alone fails on the text of a module as it did."""
    from ..passes.manager import PassManager

    try:
        alone = PassManager([failing], verify_each=manager.verify_each, target=manager.target)
        alone.run(parse_either(Source(module)))
    except Exception as again:
        return type(again) is type(bug) and str(again) == str(bug)
    return False


def write(options: CompileOptions, manager: PassManager | None, error: InternalError) -> str | None:
    """Write a reproducer where --crash-reproducer says, else to this folder or that of temporary files.

    Returns its path; None if there is to be none, or where nothing may be written.  Raises ToolError for the path of
    the option alone.
    """
    if options.crash_reproducer is not None:
        write_text(text(options, manager, error), options.crash_reproducer)
        return options.crash_reproducer
    # under --limits this process writes no files of its own choice
    if options.no_crash_reproducer or output_channel.is_limited_child():
        return None
    content = text(options, manager, error)
    ending = ".mlir" if is_mlir(error.source) and content.endswith(error.source.text) else ".vyre"
    raw = content.encode("utf-8", "surrogateescape")
    try:
        return _create("", f"vyre-opt-crash-{blake3(raw).hexdigest(4)}{ending}", raw)
    except OSError:
        pass
    try:
        temporary = tempfile.gettempdir()
        check_folder(temporary)
        # others write there, too, and could take a name that they can foretell
        return _create(temporary, f"vyre-opt-crash-{token_hex(8)}{ending}", raw)
    except OSError:
        return None


def _create(folder: str, name: str, content: bytes) -> str:
    """Write a new file, through no link; its path.  Raises OSError."""
    target = Folder(folder, None)
    try:
        target.create(name, content)
    except FileExistsError:  # the same failure again has the same name, and leaves one file
        if target.read(name, len(content)) != content:
            raise
    return target.path_of(name)


def note_failure(source: Source, options: RunOptions) -> None:
    """Write a reproducer for vyre-opt of passes that failed in vyre-run, if they fail there too, and say where it is."""
    from ..passes.bisect import BisectLimit
    from ..passes.manager import PassManager
    from .compile_options import CompileOptions
    from .session import InternalError, Session

    compiling = CompileOptions(
        (options.passes,),
        spec=options.spec,
        opt_bisect_limit=options.opt_bisect_limit,
        no_crash_reproducer=options.no_crash_reproducer,
    )
    manager = PassManager(options.passes)
    if options.opt_bisect_limit is not None:
        manager.bisect = BisectLimit(options.opt_bisect_limit, lambda line: None)
    try:
        Session(compiling, manager).compile(source)
    except InternalError as error:
        if (path := write(compiling, manager, error)) is not None:
            write_stderr(f"note: see this again with {run_again(path, ())}\n")


def read(source: str) -> list[str]:
    """The options in the comments that head a reproducer.  Raises ToolError."""
    head = _HEAD.match(source)
    match = _COMMAND.search(head.group() if head else "")
    if match is None:
        raise ToolError("--run-reproducer: no line `// vyre-opt --pass-pipeline=...` heads this file")
    try:
        return shlex.split(match.group(1))
    except ValueError as error:
        raise ToolError(f"--run-reproducer: cannot read the options in the first line: {error}") from None


def run_again(path: str, plugins: Sequence[str]) -> str:
    """The command that runs a reproducer."""
    loads = [f"--load-pass-plugin={plugin}" for plugin in plugins]
    return shlex.join(["vyre-opt", *loads, "--run-reproducer", path])
