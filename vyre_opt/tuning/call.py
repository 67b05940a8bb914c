"""Tuning by calls as a user makes them, with the host's work included."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..execution.dispatcher import Dispatcher
from ..execution.target import as_target
from .space import Config, Space

__all__ = ["Call"]

Array = np.ndarray[Any, Any]


class Call(ABC):
    """`dispatcher`: the target that runs the call.  For the rest see `Workload`."""

    @property
    @abstractmethod
    def dispatcher(self) -> Dispatcher: ...

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def family(self) -> str: ...

    @property
    @abstractmethod
    def shape(self) -> str: ...

    @abstractmethod
    def space(self, target: str) -> Space: ...

    @abstractmethod
    def default(self, target: str) -> Config: ...

    @abstractmethod
    def call(self, config: Mapping[str, Any]) -> Callable[[], Sequence[Any]]:
        """Function to measure: it takes no arguments and that returns the outputs.  Raises DispatchError and ValueError."""

    @abstractmethod
    def check(self) -> None:
        """Run once as written.  Raises the ProgramError of a call that faults, and BadInputs."""

    @abstractmethod
    def fault(self, outputs: Sequence[Array]) -> str:
        """Mistake in the outputs of the first call; "" without one."""

    def prior(self, space: Space, target: str) -> Array:
        """Seconds that each configuration is expected to take; only ratios of these count."""
        return np.ones(len(space))

    def wait(self) -> None:
        """Wait until the GPU has done all calls."""
        as_target(self.dispatcher).synchronize()
