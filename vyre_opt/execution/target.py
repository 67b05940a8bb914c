"""Protocol of the compiler's own dispatchers, and a stand-in for a dispatcher of the caller's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .dispatcher import Dispatcher, Scratch
from .variables import value_of

if TYPE_CHECKING:
    from ..ir.program import Module, Program
    from .cache.compilations import Compilation
    from .cache.store import Store
    from .plans.call_plan import CallPlan, Loaded
    from .plans.zeroed import Forms

__all__ = ["Target", "as_target", "unusual", "wants_debug_info"]


class Target(ABC):
    """A dispatcher that loads whole plans.

    `workers`: its threads, or the multiprocessors of a GPU.  `bounds`: see `CudaDispatcher`.  `has_debug_info`: whether its
    code has line tables.  `store`: where compiled code is kept between processes.
    """

    name: str = ""
    workers: int = 1
    bounds: str = "trap"
    has_debug_info: bool = False
    store: Store | None = None
    plans_only: bool = False
    """Whether a function on arrays returns the `PlannedCall` of a call, which is not run."""

    @abstractmethod
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
    ) -> list[Any]:
        """See `Dispatcher.dispatch`."""

    @abstractmethod
    def load(self, call: CallPlan) -> Loaded:
        """The plan of a call on arrays in main memory, compiled.  Raises what a dispatch does."""

    def forms_of(self, program: Program) -> Forms:
        """The forms in which a program of a plan writes buffers whole."""
        from .plans.zeroed import forms_of_text

        return forms_of_text(program)

    @property
    def architecture(self) -> str:
        """Architecture of the GPU, such as sm_90; "" for other targets, and on a machine without one."""
        return ""

    @property
    def device_name(self) -> str:
        """The name of the GPU, such as NVIDIA H200; "" for other targets."""
        return ""

    @property
    def schedules(self) -> str:
        """Key of schedules: the architecture of a GPU, or the name."""
        return self.architecture or self.name

    @property
    def key(self) -> str:
        """A text that is the same for two targets only if what was measured on one holds for the other."""
        return self.name

    @cached_property
    def compilations(self) -> deque[Compilation]:
        """Compilations, and codes found in the cache, in order; a reader may empty it."""
        return deque()

    def at_level(self, level: int) -> Dispatcher:
        """The same at another level of LLVM's optimiser, 0 to 3, where there is one."""
        return self

    def with_debug_info(self) -> Dispatcher:
        """The same with line tables in its code, where there is code; one dispatcher, which keeps what it compiled."""
        return self

    def compiler(self) -> Callable[[Module], None] | None:
        """A function that compiles the programs of a module into the cache, in any process; None where there is no cache."""
        return None

    def synchronize(self) -> None:  # noqa: B027  nothing to wait for is a rule of its own
        """Wait for all work.  Raises the ProgramError of a fault, and BackendError where the device is missing."""


def as_target(dispatcher: Dispatcher) -> Target:
    """The dispatcher itself, or a target that has its `dispatch` and nothing else."""
    return dispatcher if isinstance(dispatcher, Target) else _Callers(dispatcher)


class _Callers(Target):
    """A dispatcher of the caller's."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.name = str(getattr(dispatcher, "name", type(dispatcher).__name__))

    def dispatch(self, *args: Any, **options: Any) -> list[Any]:
        return self.dispatcher.dispatch(*args, **options)

    def load(self, call: CallPlan) -> Loaded:
        from .plans.dispatched import DispatchedPlan

        return DispatchedPlan(self.dispatcher, call)

    def at_level(self, level: int) -> Dispatcher:
        return self.dispatcher

    def with_debug_info(self) -> Dispatcher:
        return self.dispatcher


def wants_debug_info(is_profiled: bool) -> bool:
    """Whether code has line tables where nobody says: as the environment variable VYRE_DEBUG_INFO does, or if it is profiled."""
    value = value_of("VYRE_DEBUG_INFO")
    return value == "1" if value else is_profiled


def unusual(options: Any) -> str:
    """The fields of a dataclass that have another value than by default, as a text for `Target.key`."""
    values = [(field, getattr(options, field.name)) for field in fields(options)]
    return "".join(f" {f.name}={v}" for f, v in values if f.default is not MISSING and v != f.default)
