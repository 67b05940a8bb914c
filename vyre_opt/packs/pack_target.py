"""Base of the targets of a pack's functions: their programs are compiled already, and are found by the keys of their parts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ..execution.dispatcher import BackendError, Scratch
from ..execution.plans.zeroed import Forms
from ..execution.target import Target
from ..ir.program import Module, Program
from ..pack_files.format import Pack, PackError
from .decoding import decoding
from .ir_data import Decoder

__all__ = ["ABI", "PackTarget", "check_version", "gpus_of"]

ABI = 4
"""Version of the interface of object code, of the threads that run it, and of the rows that describe it; another number whenever earlier
packs could not be used."""


def check_version(pack: Pack) -> None:
    """Raises PackError for a pack whose code is called in another way than this package calls it."""
    if pack.about.get("abi") != ABI:
        raise PackError(
            f"{pack.name} is for version {pack.about.get('abi')} of the calls of code, and this package makes "
            f"those of {ABI}; install the version of it that the pack was made for, or pack the kernels anew"
        )


def gpus_of(pack: Pack, function: str) -> list[str]:
    """GPUs that a function is packed for."""
    prefix = f"plans/{function}/"
    plans = [name.removeprefix(prefix) for name in pack.names("plan") if name.startswith(prefix)]
    return [name for name in plans if name != "cpu"]


class Form(Protocol):
    """A program that a pack has code of.  `source`: its declarations before it was compiled."""

    source: Program


F = TypeVar("F", bound=Form)


class PackTarget(Target, Generic[F]):
    """Runs the programs of a pack, and nothing else."""

    def __init__(self, pack: Pack, decoder: Decoder) -> None:
        self._pack, self._decoder = pack, decoder
        self._forms: dict[str, F] = {}
        self._by_source: dict[Program, F] = {}
        self._whole_writes: dict[Program, tuple[str, Any]] = {}

    @abstractmethod
    def plan_of(self, function: str) -> str:
        """The part with the plan of a function.  Raises PackError where there is no code for this machine."""

    @abstractmethod
    def decoded(self, key: str) -> F:
        """A program of the pack.  Raises PackError."""

    def program(self, key: str) -> Program:
        """The program of a part, as launches name it.  Raises PackError."""
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self.decoded(key)
            self._by_source[form.source] = form
        return form.source

    def form_of(self, program: Program) -> F:
        """Code of a program that `program` gave."""
        return self._by_source[program]

    def set_forms(self, program: Program, part: str, rows: Any) -> None:
        """Set what `forms_of` says of a program; `rows`: as `part` of the pack has it."""
        self._whole_writes[program] = part, rows

    def forms_of(self, program: Program) -> Forms:
        part, rows = self._whole_writes[program]
        with decoding(self._pack, part):
            return self._decoder.whole_writes(rows)

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
        raise BackendError("the code of a pack runs the functions of the pack alone")
