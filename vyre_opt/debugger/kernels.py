"""`vyre_opt.debug`: a kernel or a pipeline of Python under the debugger.

vyre.debug(saxpy, workgroup=3, local=7)[grid](a, x, y)
"""

from __future__ import annotations

from typing import IO, Any

from ..driver.executable import Executable, Grid
from ..driver.in_place_arrays import check_arrays
from ..driver.pipeline import PipelineExecutable
from ..driver.program import ProgramExecutable
from ..execution.arguments import encoder_of, in_order
from ..execution.params import value_as_passed
from ..ir.tracebacks import CallTypeError, public
from ..lang.functions import Kernel
from ..lang.generics import for_arrays
from ..lang.pipelines import PipelineFunction
from .prompt import Prompt
from .session import Ids, Quit, checked_ids

__all__ = ["DebuggedKernel", "debug"]


@public
def debug(
    kernel: Kernel | PipelineFunction,
    *,
    workgroup: Ids = None,
    local: Ids = None,
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
) -> DebuggedKernel:
    """The kernel, to be called as it is, under a debugger: `vyre.debug(saxpy, workgroup=3, local=7)[grid](a, x, y)`.

    The interpreter runs it as it is written, and a prompt opens at its first line, or at `breakpoint()` where it has some;
    `help` there lists the commands.  `workgroup`, `local`: the invocation to look at, each a linear id or up to three of them; without,
    it is the first that comes to a breakpoint.  `stdin`, `stdout`: where commands come from and output goes, by default the terminal.

    The arrays change as in a call, unless the run is left before its end.  Raises BadInputs, and ProgramError for a fault of
    the kernel, after the prompt has shown it.
    """
    if not isinstance(kernel, (Kernel, PipelineFunction)):
        name = getattr(kernel, "__name__", type(kernel).__name__)
        raise CallTypeError(
            f"vyre.debug takes a kernel or a pipeline, not {name}: vyre.debug(kernel)[grid](x, y), vyre.debug(pipeline)(x, y)"
        )
    return DebuggedKernel(
        kernel, checked_ids(workgroup, "workgroup"), checked_ids(local, "local"), stdin, stdout
    )


class DebuggedKernel:
    """Result of `debug`: `debugged[grid](arguments)`, or `debugged(arguments)` where the kernel has its grid, or is a pipeline."""

    def __init__(
        self,
        kernel: Kernel | PipelineFunction,
        workgroup: Ids,
        local: Ids,
        stdin: IO[str] | None,
        stdout: IO[str] | None,
    ) -> None:
        self.kernel, self.workgroup, self.local = kernel, workgroup, local
        self.stdin, self.stdout = stdin, stdout

    @public
    def __getitem__(self, grid: Any) -> ConfiguredDebugging:
        if isinstance(self.kernel, PipelineFunction):
            name = self.kernel.function.__name__
            raise CallTypeError(
                f"{name} is a pipeline, whose launches have their grids: vyre.debug({name})(...)"
            )
        return ConfiguredDebugging(self, self.kernel[grid].grid)

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        grid = self.kernel._over_own_grid().grid if isinstance(self.kernel, Kernel) else None
        self.run(grid, in_order(self.kernel.function, args, kwargs))

    def run(self, grid: Grid, args: Any) -> None:
        """A call with arguments in the order of the function's."""
        given = dict(zip(self.kernel.parameters, args, strict=True))
        kernel = for_arrays(self.kernel, given)
        module, name = kernel.debug_module(), kernel.function.__name__
        prompt = Prompt(module, self.stdin, self.stdout)
        session = prompt.session
        session.workgroup, session.local = self.workgroup, self.local
        kind = PipelineExecutable if isinstance(kernel, PipelineFunction) else ProgramExecutable
        executable: Executable = kind(module, name, session.dispatcher)
        executable.transform(None)
        signature = executable.signature
        arrays = {buffer.name: given[buffer.name] for buffer in signature.parameters}
        check_arrays(signature, name, session.dispatcher, arrays)
        words = {n: encoder_of(name, param)(given[n]) for n, param in signature.params.items()}
        params = {n: value_as_passed(word, signature.params[n]) for n, word in words.items()}
        arguments = executable.arguments(arrays, {}, words)
        try:
            outputs = session.run(lambda: executable.run(arguments, grid, None, session.watch, params))
        except Quit:
            return
        for buffer, output in zip(signature.outputs, outputs, strict=True):
            arrays[buffer.name][...] = output


class ConfiguredDebugging:
    """A kernel under the debugger, and its grid."""

    def __init__(self, debugged: DebuggedKernel, grid: Any) -> None:
        self.debugged, self.grid = debugged, grid

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.debugged.run(self.grid, in_order(self.debugged.kernel.function, args, kwargs))
