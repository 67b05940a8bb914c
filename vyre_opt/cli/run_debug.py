"""vyre-run --debug and --replay: a run under the debugger, whose commands come from stdin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..debugger.prompt import Prompt
from ..debugger.session import ExpectedFault, Ids, Proceed, Quit, ToFault
from ..debugger.view import ExpressionError
from ..driver.recording import FaultRecord, RecordError, read_record, restore_places
from ..execution.dispatcher import Invocation
from .errors import ToolError
from .run_options import RunOptions

if TYPE_CHECKING:
    from ..ir.program import Module
    from .run_buffers import AnyExecutable

__all__ = ["debugged_outputs", "new_prompt", "place_module", "set_options"]


def set_options(values: dict[str, Any]) -> str:
    """Set the options of vyre-run to those that repeat the call of --replay; gives its FILE.  Raises ToolError."""
    folder, record = _record(values["replay"])
    values["debug"], values["entry"] = True, record.entry
    values["grid"] = None if record.grid is None else tuple(record.grid)
    values["inputs"] = tuple((name, str(folder / f"inputs/{n}.npy")) for n, name in enumerate(record.inputs))
    values["lengths"] = tuple((name, ",".join(map(str, shape))) for name, shape in record.lengths.items())
    values["param"] = tuple(record.params.items())
    if values["workgroup"] is None and values["local"] is None and record.workgroup is not None:
        values["workgroup"] = tuple(record.workgroup)  # it runs first
    return str(folder / "module.vyre")


def place_module(module: Module, options: RunOptions) -> None:
    """Give what --replay has read the places in the files that it was written in.  Raises ToolError."""
    assert options.replay is not None
    folder, record = _record(options.replay)
    try:
        restore_places(module, folder, record)
    except RecordError as error:
        raise ToolError(str(error)) from None


def _record(folder: str) -> tuple[Path, FaultRecord]:
    try:
        return read_record(Path(folder))
    except RecordError as error:
        raise ToolError(f"--replay: {error}") from None


def new_prompt(module: Module, options: RunOptions) -> Prompt:
    """The prompt of a run; it compiles for `prompt.session.dispatcher`."""
    record = None if options.replay is None else _record(options.replay)[1]
    prompt = Prompt(module, nan=record is not None and record.kind == "nan")
    session = prompt.session
    session.workgroup, session.local = (_ids(option) for option in (options.workgroup, options.local))
    if record is not None:
        known = record.workgroup is not None and record.local is not None
        by = Invocation(tuple(record.workgroup or ()), tuple(record.local or ())) if known else None
        session.expected = ExpectedFault(record.place, record.message, by)
        session.goal = ToFault()
    return prompt


def debugged_outputs(
    prompt: Prompt, executable: AnyExecutable, arguments: list[Any], options: RunOptions
) -> list[Any] | None:
    """The outputs of a run; None for one that was left before its end.  Raises ToolError, and ProgramError as runs do."""
    prompt.module, session = executable.module, prompt.session
    for text in options.breakpoints:
        place, _, condition = text.partition(" if ")
        try:
            prompt.add_breakpoint(place.strip(), condition.strip())
        except (ValueError, ExpressionError) as error:
            raise ToolError(f"--break: {error}") from None
    if session.breakpoints:
        session.goal = Proceed()
    params = dict(options.param)
    try:
        return session.run(lambda: executable.run(arguments, options.grid, None, session.watch, params))
    except Quit:
        return None


def _ids(option: tuple[int, ...] | None) -> Ids:
    return option[0] if option is not None and len(option) == 1 else option
