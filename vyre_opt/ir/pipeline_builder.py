"""Building pipelines in Python.

p = PipelineBuilder("main")
x = p.buffer("x", "f32", None, "read")
t = p.buffer("t", "f32", p.len(x))
y = p.buffer("y", "f32", None, "write", live_out=True)
p.launch(scale, p.ceil_div(p.len(x), 256), [x, t], {"alpha": 2.0})
with p.repeat(3):
    p.launch(scale, 4, [t, y], {"alpha": 0.5})
module = p.finish()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .caller import caller_location
from .diagnostics import Location
from .grids import FUNCTIONS, Extent, GridCall
from .literals import Literal
from .ops import NAMED_KERNELS
from .pipeline import Fill, HostRead, KernelStage, Launch, LaunchParam, Pipeline, Repeat, Stage
from .plugin_ops import find_op
from .program import AccessMode, Buffer, Module, Param, Program
from .suggestions import suggest
from .types import DataType, as_type

__all__ = ["PipelineBuilder"]


class PipelineBuilder:
    """Builds one pipeline; the programs that it launches are added to its module.

    Stages are located at the lines that build them.  Methods raise TypeError or ValueError for what no pipeline takes;
    `finish` runs the verifier for the rest.
    """

    def __init__(self, name: str, module: Module | None = None) -> None:
        self.module = Module() if module is None else module
        self.pipeline = Pipeline(name, loc=caller_location())
        self._stages: list[Stage] = self.pipeline.stages

    def finish(self) -> Module:
        """The module with the pipeline.  Raises DiagnosticError if it does not verify."""
        from .verifier import check

        if self.pipeline not in self.module.order:
            self.module.add(self.pipeline)
        check(self.module)
        return self.module

    # --- declarations

    def buffer(
        self,
        name: str,
        dtype: DataType | str,
        size: Extent | Param | None,
        access: str | None = None,
        *,
        live_in: bool = False,
        live_out: bool = False,
    ) -> Buffer:
        """Declare a buffer; `size` is a number of elements, a param, an expression, or None for an open size."""
        if name in self.pipeline.buffers:
            raise ValueError(f"pipeline @{self.pipeline.name} has a buffer @{name} already")
        mode = None if access is None else AccessMode(access)
        extent = None if size is None else _extent(size)
        count, expression = (None, extent) if isinstance(extent, GridCall) else (extent, None)
        loc = caller_location()
        declared = Buffer(name, as_type(dtype), count, mode, None, live_in, live_out, loc, expression)
        self.pipeline.buffers[name] = declared
        return declared

    def param(self, name: str, dtype: DataType | str) -> Param:
        """Declare a runtime scalar, which launches and expressions may use."""
        if name in self.pipeline.params:
            raise ValueError(f"pipeline @{self.pipeline.name} has a param @{name} already")
        param = self.pipeline.params[name] = Param(name, as_type(dtype), loc=caller_location())
        return param

    # --- expressions of sizes and grids

    def len(self, buffer: Buffer | str) -> Extent:
        """The elements of a buffer."""
        return GridCall("len", (self._name(buffer),))

    def __getattr__(self, name: str) -> Any:
        """`add`, `sub`, `mul`, `div`, `ceil_div`, `min` and `max` of two extents."""
        if name not in FUNCTIONS:
            raise AttributeError(
                f"a pipeline builder has no {name}; {suggest(name, [*FUNCTIONS, 'launch', 'buffer']) or ''}"
            )
        return lambda a, b: GridCall(name, (_extent(a), _extent(b)))

    # --- stages

    def launch(
        self,
        program: Program,
        grid: Extent | Param | Sequence[Extent | Param],
        buffers: Sequence[Buffer | str],
        params: Mapping[str, bool | int | float | Param] | None = None,
    ) -> None:
        """Run a program; `buffers` in the order of its bindings, `params` its runtime scalars by name."""
        if program.name not in self.module.programs:
            self.module.add(program)
        elif self.module.programs[program.name] is not program:
            raise ValueError(f"the module has another program @{program.name}")
        parts = list(grid) if isinstance(grid, Sequence) else [grid]
        if not 1 <= len(parts) <= 3:
            raise ValueError(f"a grid has 1 to 3 extents, not {len(parts)}")
        x, y, z = (*map(_extent, parts), 1, 1)[:3]
        values = {name: _launch_param(value) for name, value in (params or {}).items()}
        self._add(Launch(program.name, (x, y, z), self._names(buffers), caller_location(), params=values))

    def kernel(self, name: str, *buffers: Buffer | str, **params: int) -> None:
        """Run a named kernel."""
        row = find_op(name)
        if row is None or row.kernel is None:
            raise ValueError(f"there is no kernel {name}; {suggest(name, NAMED_KERNELS) or ''}")
        self._add(KernelStage(name, self._names(buffers), params, caller_location()))

    def fill(
        self, buffer: Buffer | str, value: bool | int | float | Sequence[bool | int | float] = 0
    ) -> None:
        """Set all elements of a buffer to a value; a sequence has one for each lane of a vector."""
        lanes = value if isinstance(value, Sequence) else (value,)
        self._add(Fill(self._name(buffer), tuple(map(literal_of, lanes)), caller_location()))

    def host_read(self, buffer: Buffer | str) -> None:
        """Let the host read a buffer at this point."""
        self._add(HostRead(self._name(buffer), caller_location()))

    @contextmanager
    def repeat(self, times: int) -> Iterator[None]:
        """Repeat the stages that are built inside `times` times."""
        loc: Location | None = caller_location(3)
        outer, self._stages = self._stages, []
        try:
            yield
            outer.append(Repeat(times, self._stages, loc))
        finally:
            self._stages = outer

    def _add(self, stage: Stage) -> None:
        self._stages.append(stage)

    def _names(self, buffers: Sequence[Buffer | str]) -> tuple[str, ...]:
        return tuple(map(self._name, buffers))

    def _name(self, buffer: Buffer | str) -> str:
        name = buffer if isinstance(buffer, str) else buffer.name
        if name not in self.pipeline.buffers:
            hint = suggest(name, self.pipeline.buffers, "@")
            raise ValueError(
                f"pipeline @{self.pipeline.name} has no buffer @{name}" + (f"; {hint}" if hint else "")
            )
        return name


def _extent(value: Extent | Param) -> Extent:
    if isinstance(value, Param):
        return GridCall("param", (value.name,))
    if isinstance(value, GridCall) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError(
        f"a size is a whole number, a param, or an expression of a pipeline builder, not {value!r}"
    )


def _launch_param(value: bool | int | float | Param) -> LaunchParam:
    return value.name if isinstance(value, Param) else literal_of(value)


def literal_of(value: bool | int | float) -> Literal:
    """A number of Python as a literal of the language."""
    if isinstance(value, bool):
        return "bool", str(value).lower()
    if isinstance(value, int):
        return "int", str(value)
    if isinstance(value, float):
        return "float", repr(value)
    raise TypeError(f"a runtime scalar is a bool, an int or a float, not {value!r}")
