"""The dispatcher protocol: run a program over a grid, on any target.

    dispatcher("ref").dispatch(program, inputs, grid) -> outputs

Inputs and outputs are one array for each bound buffer, in binding order; see
`Dispatcher.dispatch`.  Everything that computes through a program (passes, the
tuner, the command line) uses this protocol and nothing else of a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..ir.diagnostics import Diagnostic, render
from ..ir.tracebacks import CallerError
from ..kernels.call import OutputAlloc
from ..records import dataclass
from ..worker import import_module

if TYPE_CHECKING:
    import numpy as np

    from ..ir.program import Module, Program

__all__ = [
    "BackendError",
    "BadInputs",
    "BadLaunch",
    "BadSpecs",
    "DispatchError",
    "Invocation",
    "LocatedBadInputs",
    "Dispatcher",
    "ProgramError",
    "OutputAlloc",
    "Scratch",
    "TARGETS",
    "UnavailableTarget",
    "DispatcherLike",
    "dispatcher",
    "shared_dispatcher",
]


class DispatchError(Exception):
    """A dispatch that did not complete: either `BadInputs` or a `BackendError`."""


class BadInputs(DispatchError, CallerError, ValueError):
    """The caller's inputs, grid or specs do not fit the program.  Nothing was allocated or run."""


class LocatedBadInputs(BadInputs):
    """Inputs that do not fit the program, with `diagnostics` that say where in its text; `str()` renders them."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("; ".join(diagnostic.message for diagnostic in diagnostics))
        self.diagnostics = list(diagnostics)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.diagnostics,))

    def __str__(self) -> str:
        return "\n".join(render(diagnostic) for diagnostic in self.diagnostics)


class BadLaunch(LocatedBadInputs):
    """Stages of a pipeline that do not fit the given lengths, or the device.  Nothing was run."""


class BadSpecs(LocatedBadInputs):
    """Values of specialization constants that are unknown, missing, or of another type."""


class BackendError(DispatchError):
    """The backend could not run the program, or not to its end."""


class UnavailableTarget(BackendError, CallerError):
    """The machine lacks what a target needs: a package, a driver, a GPU."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """An invocation by its ids along x, y and z.

    `workgroup` is None where it is one of several that take turns, and both where it does the work of others, too.  Of
    neighbours that a GPU ran as one, an id is the text `4 to 7`.
    """

    workgroup: tuple[object, ...] | None
    local: tuple[object, ...] | None

    def __str__(self) -> str:
        if self.local is None:
            return "an invocation"
        where = "a workgroup" if self.workgroup is None else f"workgroup {_ids(self.workgroup)}"
        return f"{where} local id {_ids(self.local)}"


def _ids(ids: tuple[object, ...]) -> str:
    return f"({','.join(map(str, ids))})"


class ProgramError(BackendError, CallerError):
    """The program itself is at fault: a race, an access out of bounds, a trap, a false assert, and so on.

    `kind` is one of bounds, race, uninitialised, divergence, trap, assert, step, kernel, limit, nan.
    `diagnostic` is located at the op; `str()` renders it.  `invocation`: the one that met it, where that is known.
    `buffer`: the name that the program which ran has for the buffer that it is about.
    """

    def __init__(
        self,
        kind: str,
        diagnostic: Diagnostic,
        invocation: Invocation | None = None,
        buffer: str | None = None,
    ) -> None:
        super().__init__(diagnostic.message)
        self.kind = kind
        self.diagnostic = diagnostic
        self.invocation = invocation
        self.buffer = buffer

    def __reduce__(self) -> tuple[Any, ...]:
        return (ProgramError, (self.kind, self.diagnostic, self.invocation, self.buffer))

    def __str__(self) -> str:
        return render(self.diagnostic)


class Scratch:
    """Storage that a caller keeps between dispatches, so that transient buffers are not allocated again.

    One Scratch serves one dispatch at a time.  `storage` belongs to the backend, by buffer name;
    its contents between dispatches are undefined.
    """

    def __init__(self) -> None:
        self.storage: dict[str, Any] = {}

    def clear(self) -> None:
        """Give all storage back."""
        self.storage.clear()


class Dispatcher(Protocol):
    """Protocol of every backend.  `name` is the target's.

    Those of this project are also `Target`s (see `vyre_opt.execution.target`).
    """

    name: str

    def dispatch(
        self,
        program: Program,
        inputs: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
    ) -> list[np.ndarray]:
        """Run `program` once over `grid` workgroups and return its outputs.

        `inputs`: an array or bytes for each bound buffer, in binding order, those that
        are written included: their arrays give the length of a buffer of open size and
        what its elements hold before they are written.  They are never modified.  Where
        that does not matter, an `OutputAlloc` gives the length alone.
        `grid`: workgroups along x, y and z; an int or fewer than three stand for ones in
        the rest; None for a program whose text fixes its grid.  A grid without workgroups runs nothing.
        `module`: where the functions that the program calls are found.
        `specs`: values of specialization constants by name, in place of their defaults.
        `params`: values of runtime scalars by name; those with defaults may be left out.

        Returns a fresh array for each buffer with `is_output`, in binding order: of the shape of
        its buffer, and one dimension more for the lanes of vector elements.

        Raises BadInputs before anything is allocated or run, ProgramError for a program
        at fault, and BackendError for whatever else stops the dispatch.
        """
        ...


TARGETS = {
    "ref": ("vyre_opt.targets.ref", "RefDispatcher"),
    "cpu": ("vyre_opt.targets.cpu.dispatcher", "CpuDispatcher"),
    "cuda": ("vyre_opt.targets.cuda.dispatcher", "CudaDispatcher"),
}
"""Target -> the module and the class of its dispatcher; a build may lack the module.

`vyre_opt.targets` is a layer above this one.  Its packages are named as text and imported when a target is asked for.
"""


DispatcherLike = str | Dispatcher
"""A dispatcher, or the name of one: ref, cpu or cuda."""


def dispatcher(name: str = "cpu", **options: Any) -> Dispatcher:
    """The dispatcher of a target: ref (the interpreter), cpu or cuda.

    `options` go to its class.  Raises BadInputs for a name that is no target, and
    BackendError for a target that this build or this machine does not have.
    """
    if name not in TARGETS:
        import_module("vyre_opt.syntax.synonyms")
        from ..syntax.synonyms import advice

        hint = advice(str(name), "run_target", TARGETS)
        known = ", ".join(TARGETS)
        raise BadInputs(f"unknown target {name!r}; the targets are {known}" + (f"; {hint}" if hint else ""))
    cls = _dispatcher_class(name)
    if isinstance(cls, str):
        available = [target for target in TARGETS if not isinstance(_dispatcher_class(target), str)]
        raise BackendError(f"target {name} is not available: {cls}; available: {', '.join(available)}")
    return cls(**options)


def _dispatcher_class(name: str) -> Callable[..., Dispatcher] | str:
    """The dispatcher class of a target, or the reason why there is none."""
    module, attribute = TARGETS[name]
    try:
        cls: Callable[..., Dispatcher] | None = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as missing:
        if missing.name and not missing.name.startswith("vyre_opt"):
            return f"it needs the package {missing.name}"
        cls = None
    return cls or "this build does not have it"


_shared: dict[object, Dispatcher] = {}


def shared_dispatcher(target: DispatcherLike, **options: Any) -> Dispatcher:
    """The dispatcher itself, or the process's one of that name and options.

    It is shared since a dispatcher keeps the programs that it has compiled.
    """
    if not isinstance(target, str):
        if not hasattr(target, "dispatch"):
            raise BadInputs(f"not a dispatcher nor the name of one ({', '.join(TARGETS)}): {target!r}")
        return target
    key = (target, *sorted(options.items())) if options else target
    instance = _shared.get(key)
    if instance is None:
        instance = _shared[key] = dispatcher(target, **options)
    return instance
