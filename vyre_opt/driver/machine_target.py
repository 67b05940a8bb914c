"""A machine of the table as a target: calls are planned for it, and nothing runs."""

from __future__ import annotations

from typing import Any, NoReturn

from ..execution.dispatcher import BackendError, BadInputs
from ..execution.target import Target
from ..ir.suggestions import suggest
from ..scheduling.machines import MACHINES, Machine, copying_machine, machine_named, machine_of
from .copy_speed import copy_speed

__all__ = ["MachineTarget", "machine_behind"]


class MachineTarget(Target):
    """Plans as for a GPU like the machine."""

    name = "cuda"

    def __init__(self, machine: Machine | str) -> None:
        """`machine`: of the table, or its name there, such as H100 SXM.  Raises BadInputs for a name that is not there."""
        self.machine = _in_table(machine) if isinstance(machine, str) else machine
        self.workers = self.machine.processors

    @property
    def device_name(self) -> str:
        return self.machine.name

    @property
    def architecture(self) -> str:
        return self.machine.architecture

    def dispatch(self, *args: Any, **options: Any) -> NoReturn:
        raise BackendError(f"nothing runs on a {self.machine.name} of the table")

    def load(self, call: object) -> NoReturn:
        self.dispatch()


def _in_table(name: str) -> Machine:
    named = {machine.name: machine for machine in MACHINES}
    if name not in named:
        hint = suggest(name, named)
        known = ", ".join(named)
        raise BadInputs(
            f"no figures of a machine {name!r}; there are {known}" + (f"; {hint}" if hint else "")
        )
    return named[name]


def machine_behind(target: Target, moved: int) -> Machine | None:
    """Machine behind a target: a GPU by its name, or by its architecture where the name is unknown; a CPU by its
    measured bandwidth of copies.  None for other targets."""
    if isinstance(target, MachineTarget):
        return target.machine
    if target.architecture:
        return machine_named(target.device_name) if target.device_name else machine_of(target.architecture)
    speed = copy_speed(target, moved)
    return None if speed is None else copying_machine(speed, target.workers)
