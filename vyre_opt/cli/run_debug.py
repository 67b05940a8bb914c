"""vyre-run --debug: a run under the debugger, whose commands come from stdin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..debugger.prompt import Prompt
from ..debugger.session import Ids, Proceed, Quit
from ..debugger.view import ExpressionError
from .errors import ToolError
from .run_options import RunOptions

if TYPE_CHECKING:
    from ..ir.program import Module
    from .run_buffers import AnyExecutable

__all__ = ["debugged_outputs", "new_prompt"]


def new_prompt(module: Module, options: RunOptions) -> Prompt:
    """The prompt of a run; it compiles for `prompt.session.dispatcher`."""
    prompt = Prompt(module)
    session = prompt.session
    session.workgroup, session.local = (_ids(option) for option in (options.workgroup, options.local))
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
