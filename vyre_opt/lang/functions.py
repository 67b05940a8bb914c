"""`@program` and `@func`: Python functions as programs, and as functions that programs call."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from ..execution.arguments import in_order, some_by_name
from ..ir.caller import caller_location
from ..ir.program import DEFAULT_WORKGROUP, MAX_LANES, MAX_WORKGROUP, Dim3, Module, Program
from ..ir.tracebacks import CallerError, CallTypeError, CallValueError, hide_own_frames, public
from ..worker import import_module
from .constants import constant_of
from .decoration import check_decorated
from .fastmath import flags_of_program
from .generics import types_of_call
from .program_warnings import give_warnings
from .python_source import check_function, remember_source
from .translated_function import TranslatedFunction
from .translation_key import KeyedFunction

if TYPE_CHECKING:
    from ..driver.call_report import CallReport
    from ..driver.program import ProgramExecutable

__all__ = ["Func", "Kernel", "ConfiguredKernel", "func", "needs_grid", "program"]

MAX_GRIDS = 64


@overload
def program(function: Callable[..., Any]) -> Kernel: ...


@overload
def program(
    *,
    workgroup: int | Sequence[int] | None = None,
    grid: int | Sequence[int] | None = None,
    prefer_shared: int | None = None,
    cluster: int | None = None,
    fastmath: str | Collection[str] = (),
) -> Callable[[Callable[..., Any]], Kernel]: ...


@public
def program(
    function: Callable[..., Any] | None = None,
    *,
    workgroup: int | Sequence[int] | None = None,
    grid: int | Sequence[int] | None = None,
    prefer_shared: int | None = None,
    cluster: int | None = None,
    fastmath: str | Collection[str] = (),
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """A Python function as a program: `@program(workgroup=256)`, called as `name[grid](arguments)`.

    `workgroup`: invocations of a workgroup, one to three extents; 256 where nothing is said, but for a program with slices (`x[r, :]`),
    which says what a whole workgroup does.  `grid`: workgroups, where they are fixed.
    `prefer_shared`: percent of a multiprocessor's cache that should be workgroup memory, a hint for GPUs.  `cluster`: how many
    workgroups, neighbours along the first axis, share memory and meet at barriers of a cluster.  `fastmath`: flags that its
    arithmetic on floats gets, such as ("afn", "contract"); `fastmath=` of a call replaces them.
    """
    dims, fixed = (
        None if each is None else _dims(each, what)
        for each, what in ((workgroup, "workgroup"), (grid, "grid"))
    )
    shared = None if prefer_shared is None else _percentage(prefer_shared)
    together = None if cluster is None else _workgroups(cluster)
    options = dims, fixed, shared, together, flags_of_program(fastmath)

    @public
    def decorate(function: Callable[..., Any]) -> Kernel:
        check_function(function, "@program")
        made = Kernel(function, *options)
        check_decorated(function)
        return made

    return decorate if function is None else decorate(function)


def _dims(extents: int | Sequence[int], what: str) -> Dim3:
    dims = [constant_of(n) for n in (extents if isinstance(extents, (tuple, list)) else (extents,))]
    if not 1 <= len(dims) <= 3 or not all(type(n) is int and n > 0 for n in dims):
        raise CallValueError(f"{what} is one to three whole numbers from 1 on, not {extents!r}")
    x, y, z = (*dims, 1, 1)[:3]
    if what == "workgroup" and (x * y * z > MAX_LANES or z > MAX_WORKGROUP[2]):
        has = f"at most {MAX_LANES} invocations, and {MAX_WORKGROUP[2]} along z"
        raise CallValueError(
            f"a workgroup has {has}, not {extents!r}: write workgroup={_smaller(x, y, z)}, over a larger grid"
        )
    return x, y, z


def _smaller(x: int, y: int, z: int) -> int | tuple[int, ...]:
    """The largest workgroup that is allowed and no longer along any axis."""
    z = min(z, MAX_WORKGROUP[2], MAX_LANES)
    y = min(y, MAX_LANES // z)
    x = min(x, MAX_LANES // (z * y))
    return x if (y, z) == (1, 1) else (x, y) if z == 1 else (x, y, z)


def _workgroups(number: int) -> int:
    count = constant_of(number)
    if type(count) is not int or count < 1:
        raise CallValueError(f"cluster is a number of workgroups, not {number!r}")
    return count


def _percentage(number: int) -> int:
    percent = constant_of(number)
    if type(percent) is not int or not 0 <= percent <= 100:
        raise CallValueError(f"prefer_shared is a percentage, a whole number from 0 to 100, not {number!r}")
    return percent


@public
def func(function: Callable[..., Any]) -> Func:
    """A Python function that programs call: it computes with its arguments, arrays included."""
    check_function(function, "@func")
    made = Func(function)
    check_decorated(function, has_types=False)
    return made


class Func(KeyedFunction):
    """Result of `@func`: a function of kernels."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        remember_source(function)

    def __repr__(self) -> str:
        return f"<func {self.function.__qualname__}>"

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise CallTypeError(
            f"{self.function.__name__} is called by programs; {self.function.__name__}.function is the function of Python"
        )

    def __reduce__(self) -> str:
        return self.function.__qualname__

    def __vyre_call__(self, t: Any, node: ast.Call) -> Any:
        from .inlining import call_function

        return call_function(t, node, self.function)


class Kernel(TranslatedFunction):
    """Result of `@program`: `kernel[grid](arguments)` runs it in place on arrays, which decide where it runs.

    Arrays in main memory are of NumPy or torch and run on the cpu, those on a GPU of any library there.
    A kernel is translated when it is first needed, and compiled once for each target.  Names of its closure and of its
    module are read then, and become constants.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        workgroup: Dim3 | None,
        grid: Dim3 | None,
        prefer_shared: int | None = None,
        cluster: int | None = None,
        fastmath: tuple[str, ...] = (),
        types: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__(function, types)
        self.workgroup, self.grid = workgroup or DEFAULT_WORKGROUP, grid
        self._declared = workgroup, grid, prefer_shared, cluster, fastmath
        self._launches: dict[Any, ConfiguredKernel] = {}
        self._run_launches: set[bool] = set()
        """Whether launches were over several workgroups whose accesses have been compared."""

    def __repr__(self) -> str:
        return f"<program {self.function.__qualname__}>"

    def __getattr__(self, name: str) -> Any:
        error = AttributeError(f"a kernel has no attribute {name}", name=name, obj=self)
        if name in ("launch", "run", "forall", "dispatch", "call", "execute", "enqueue"):
            function = self.__dict__["function"]
            count, lanes = _count_written(function), self.__dict__["workgroup"][0]
            arguments = ", ".join(inspect.signature(function).parameters)
            error.add_note(f"help: write {function.__name__}[vyre.ceil_div({count}, {lanes})]({arguments})")
        raise error

    def _remade(self, types: Mapping[Any, Any] | None) -> Self:
        return type(self)(self.function, *self._declared, types)

    def _translated(self, for_debugger: bool = False) -> Module:
        import_module("vyre_opt.lang.program_translation")
        from .program_translation import translate_program

        return translate_program(self.function, *self._declared, self.types, for_debugger)

    @property
    def key_options(self) -> tuple[Any, ...]:
        return self._declared

    # --- running

    def __getitem__(self, grid: Any) -> ConfiguredKernel:
        # True and 1.0 are the same key as 1, here and in plans, and no grids
        is_whole = type(grid) is int or (type(grid) is tuple and {*map(type, grid)} == {int})
        launch = self._launches.get(grid) if is_whole else None
        if launch is None:
            try:
                launch = ConfiguredKernel(self, grid if is_whole else self._checked(grid))
            except CallerError as error:
                hide_own_frames(error)
                raise
            if is_whole and len(self._launches) < MAX_GRIDS:
                self._launches[grid] = launch
        return launch

    def _checked(self, grid: Any) -> Dim3:
        """A grid that may be of any numbers, or none.  Raises BadInputs."""
        from ..execution.dispatcher import BadInputs
        from ..execution.inputs import check_grid

        if isinstance(grid, slice):
            raise CallTypeError("a grid is one to three whole numbers, not a slice")
        program = Program(self.function.__name__, self.workgroup, self.grid) if self.variables else self._item
        try:
            return check_grid(program, grid)
        except BadInputs as error:
            name = self.function.__name__
            help = f"write one to three whole numbers, such as {name}[{usual_grid(self.function, self.workgroup[0])}](...)"
            if isinstance(grid, tuple) and grid and isinstance(grid[0], tuple):
                first = ", ".join(map(str, grid[0]))
                help = f"write {name}[{first}](...): a grid counts workgroups, and its head says how many invocations one has, workgroup={self.workgroup[0]}"
            elif isinstance(grid, float) and grid.is_integer():
                help = f"write {name}[{int(grid)}](...), and // for a quotient"
            error.add_note(f"help: {help}")
            raise

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._over_own_grid()(*args, **kwargs)

    @public
    def report(self, *args: Any, machine: str | None = None, **kwargs: Any) -> CallReport:
        """See `ConfiguredKernel.report`, for a kernel that has its grid."""
        return self._over_own_grid().report(*args, machine=machine, **kwargs)

    @public
    def time(self, *args: Any, **kwargs: Any) -> CallReport:
        """See `ConfiguredKernel.time`, for a kernel that has its grid."""
        return self._over_own_grid().time(*args, **kwargs)

    def _over_own_grid(self) -> ConfiguredKernel:
        if self.grid is None:
            raise needs_grid(self.function, self.workgroup[0])
        return self[self.grid]

    def _warn(self, grid: Any, arrays: Sequence[Any], params: Mapping[str, int]) -> None:
        import_module("vyre_opt.ir.warnings.launch_warnings")
        import_module("vyre_opt.lang.lost_results")
        from ..ir.warnings.launch_warnings import launch_warnings
        from ..ir.warnings.unreached_elements import LaunchedAt
        from .lost_results import lost_results

        by_name = dict(zip([buffer.name for buffer in self._item.bound_buffers], arrays, strict=True))
        told = [warning.loc for warning in self._warnings]
        at, extents = LaunchedAt(caller_location()), self._checked(grid)
        kind = max(extents) > 1
        found = launch_warnings(self._item, extents, by_name, params, at, told, kind in self._run_launches)
        self._run_launches.add(kind)
        written = {
            buffer.name: by_name[buffer.name]
            for buffer in self._item.bound_buffers
            if buffer.access != "read"
        }
        give_warnings([*found, *lost_results(self.function.__name__, self.parameters, written)])

    @functools.cached_property
    def _array_positions(self) -> list[int]:
        buffers = self._item.bound_buffers
        return [self.parameters.index(buffer.name) for buffer in buffers]

    # --- the program

    @property
    def _item(self) -> Program:
        return self.module.programs[self.function.__name__]

    @public
    def program(self) -> Program:
        """A copy of the program, to look at or to change."""
        from ..rewriting.cloning import copy_module

        return copy_module(self.module).programs[self.function.__name__]

    @public
    def text(self, *args: Any, **kwargs: Any) -> str:
        """The .vyre text.  Arguments, all or some of a call's, are checked as there, and change nothing but types of variables."""
        if args or kwargs:
            arguments = some_by_name(self.function, args, kwargs)
            if self.variables:
                return self.at(*types_of_call(self, arguments)).text(*args, **kwargs)
            self._check(arguments)
        return str(self.module)

    def _check(self, arguments: Mapping[str, Any]) -> None:
        """Raises BadInputs for an argument that a call would not take."""
        from ..driver.in_place_arrays import check_arrays

        for _, position, encode in self.scalars:
            if self.parameters[position] in arguments:
                encode(arguments[self.parameters[position]])
        names = [self.parameters[position] for position in self._array_positions]
        arrays = {name: arguments[name] for name in names if name in arguments}
        if arrays:
            executable = self._own_in_place.executable(list(arrays.values()))
            check_arrays(executable.signature, executable.name, executable.dispatcher, arrays)

    def _repr_html_(self) -> str | None:
        if self.variables:
            return None
        import_module("vyre_opt.syntax.highlighting")
        from ..syntax.highlighting import highlight

        return highlight(self.text())

    @public
    def ptx(self, gpu: str | None = None) -> str:
        """PTX for a GPU ("sm_90"): by default this machine's, or sm_80 where there is none."""
        return self._program_executable("cuda").ptx(gpu)

    @public
    def llvm(self, gpu: str | None = None) -> str:
        """LLVM IR before LLVM's passes, for this machine, or for a GPU ("sm_90")."""
        return self._program_executable("cpu" if gpu is None else "cuda").llvm(gpu)

    def _program_executable(self, target: str) -> ProgramExecutable:
        from ..driver.program import ProgramExecutable

        executable = self._compiled(target)
        assert isinstance(executable, ProgramExecutable)
        return executable

    def __vyre_call__(self, t: Any, node: ast.Call) -> Any:
        from .python_source import Unsupported

        name = self.function.__name__
        written = ", ".join(map(t.source.text, node.args))
        raise Unsupported(
            node,
            f"{name} is a program, and a program calls none",
            f"write @vyre.func in the place of @vyre.program above {name}, and {name}({written}) here; or launch both in a function with @vyre.pipeline",
        )


def needs_grid(function: Callable[..., Any], lanes: int) -> CallTypeError:
    """The error of a call without brackets: the example has one invocation for each element that the function writes."""
    name = function.__name__
    return CallTypeError(
        f"say how many workgroups run: {name}[grid](...), such as {name}[{usual_grid(function, lanes)}](...)"
    )


def usual_grid(function: Callable[..., Any], lanes: int, count: str = "") -> str:
    """Text of a grid: an invocation for each element that a function writes, or a workgroup for each row or block, as its source counts."""
    count = count or _count_written(function)
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    if "workgroup_id(" not in source or "global_id(" in source:
        return f"vyre.ceil_div({count}, {lanes})"
    step = re.search(r"workgroup_id\(0?\)\s*\*\s*(\w+)", source)
    return f"vyre.ceil_div({count}, {step[1]})" if step else count


def _count_written(function: Callable[..., Any]) -> str:
    """Text of the number of elements that a function writes."""
    written = [each for each, kind in function.__annotations__.items() if "Write[" in str(kind)]
    return f"len({written[-1]})" if written else "n"


class ConfiguredKernel:
    """A kernel and its grid: `launch(arguments)` runs it."""

    __slots__ = ("_count", "grid", "kernel")

    def __init__(self, kernel: Kernel, grid: Any) -> None:
        self.kernel, self.grid = kernel, grid
        self._count = len(kernel.parameters)

    def __vyre_call__(self, t: Any, node: ast.Call) -> Any:
        return self.kernel.__vyre_call__(t, node)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        try:
            if kwargs or len(args) != self._count:
                args = in_order(self.kernel.function, args, kwargs)
            if self.kernel.constants:
                self.kernel.warn_of_constants()
            self.kernel.in_place(args, self.grid)
        except CallerError as error:
            hide_own_frames(error)
            raise

    @public
    def report(self, *args: Any, machine: str | None = None, **kwargs: Any) -> CallReport:
        """Report of a call with these arguments, without running it: the bytes and operations of the launch, the resource that
        limits it, the forms that it got and those that were refused.

        `machine`: as a GPU would launch it, such as "H100 SXM"; by default what the arrays are on.
        """
        return self.kernel.in_place.report(in_order(self.kernel.function, args, kwargs), self.grid, machine)

    @public
    def time(self, *args: Any, **kwargs: Any) -> CallReport:
        """The same, and how long it takes, beside a copy of as many bytes: the median of some runs on copies of the arrays."""
        args = in_order(self.kernel.function, args, kwargs)
        return self.kernel.in_place.report(args, self.grid, is_timed=True)
