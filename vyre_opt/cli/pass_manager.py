"""The pass manager of a run of vyre-opt: the passes that its options name, watched as they say."""

from __future__ import annotations

from collections.abc import Iterable

import click

from ..passes.manager import DebugOutput, PassManager
from ..passes.pipeline_text import format_pipeline
from ..passes.registry import BrokenPlugin, PassError, PassRefused, find_pass, make_pass
from .compile_options import ALL, CompileOptions
from .emit import LOWERED
from .emit_lowered import target_of
from .errors import ToolError, write_stderr

__all__ = ["legalizer", "make_manager"]

NAMING = ("print_ir_before", "print_ir_after", "remarks", "debug_only")
"""The options whose values are names of passes."""


def make_manager(options: CompileOptions) -> PassManager:
    """The pipeline of passes; the names of passes in `options` become those of the registry.

    Raises UsageError for a pass that there is not, and ToolError for one that does not load or that --limits refuse.
    """
    try:
        manager = PassManager(options.passes, verify_each=options.verify_each, target=options.target or "")
        for option in NAMING:
            setattr(options, option, tuple(_names(getattr(options, option))))
    except PassRefused as error:
        raise ToolError(f"plugins=false: {error}") from None
    except BrokenPlugin as error:
        raise ToolError(str(error)) from None
    except PassError as error:
        raise click.UsageError(str(error)) from None
    _warn_of_absent_passes(options, [manager, legalizer(options)] if options.emit in LOWERED else [manager])
    if options.dump_pass_pipeline:
        write_stderr(format_pipeline(manager.passes) + "\n")
    if options.opt_bisect_limit is not None:
        from ..passes.bisect import BisectLimit

        manager.bisect = BisectLimit(options.opt_bisect_limit, write_stderr)
    manager.debug = _debug_output(options)
    return manager


def legalizer(options: CompileOptions) -> PassManager:
    """The passes that the target runs before the code that --emit names, after those that make programs of kernels."""
    target = target_of(options.emit, options.target)
    values = {"target": "cpu"} if target == "cpu" else {"target": "cuda", "bounds": options.bounds}
    passes = [make_pass("expand_kernels"), *make_pass("legalize", values).parts()]
    return PassManager(
        passes, options.verify_each, target=target, debug=_debug_output(options), normalizes=False
    )


def _debug_output(options: CompileOptions) -> DebugOutput | None:
    if not options.debug_only:
        return None
    return DebugOutput(None if ALL in options.debug_only else frozenset(options.debug_only), write_stderr)


def _names(values: Iterable[str]) -> Iterable[str]:
    """The names in lists of them, as the registry has them.  Raises PassError."""
    for name in (name.strip() for value in values for name in value.split(",")):
        yield name if name == ALL else find_pass(name).name


def _warn_of_absent_passes(options: CompileOptions, managers: Iterable[PassManager]) -> None:
    """Warn of passes of which something is to be printed, but which do not run."""
    running = {ALL, *(p.name for manager in managers for p in manager.passes)}
    for name in sorted({*options.print_ir_before, *options.print_ir_after} - running):
        write_stderr(f"warning: pass {name} does not run here, so its IR is not printed\n")
    for name in sorted({*options.debug_only} - running):
        write_stderr(f"warning: pass {name} does not run here, so it has no debug output\n")
