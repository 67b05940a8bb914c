"""The target of a pack's functions: their programs are compiled already, for this processor or an older one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..execution.dispatcher import BackendError, Scratch
from ..execution.plans.call_plan import CallPlan
from ..execution.plans.zeroed import Forms
from ..execution.processors import available
from ..execution.target import Target
from ..ir.program import Module, Op, Program
from ..linker.library import LinkError, can_link, link
from ..lowering.host.abi import ENTRY, HostCode
from ..pack_files.format import Pack, PackError
from ..targets.cpu.launch import CompiledLaunch
from ..targets.cpu.linking import LoadedFunction
from ..targets.cpu.loaded_plan import CpuPlan
from ..targets.cpu.object_code import ObjectCode, RunFacts
from ..targets.cpu.thread_pool import use_code
from .ir_data import Decoder
from .processors import levels_of_this_machine

__all__ = ["ABI", "PackedTarget"]

ABI = 1
"""Version of the interface of object code and of the threads that run it; another number whenever earlier code could not be called."""


class CompiledProgram:
    """A program that a pack has code of.  See `LaunchForm` for `source`, `program` and `op_at`.

    `code`: see `HostCode`, by level.
    """

    records = None  # programs that print are not packed

    def __init__(self, pack: Pack, key: str, decoder: Decoder) -> None:
        row = pack.read_json(f"programs/{key}")
        self.key, self._pack, self._decoder = key, pack, decoder
        self.source = decoder.program(row["source"])
        self.program = decoder.program(row["legal"])
        self.code, self.facts = row["code"], RunFacts(**row["facts"])

    @cached_property
    def _ops(self) -> dict[int, Op]:
        return {n: self._decoder.op(row) for n, row in self._pack.read_json(f"faults/{self.key}")}

    def op_at(self, number: int) -> Op:
        return self._ops[number]


class PackedTarget(Target):
    """Runs the programs of a pack.  Raises PackError where it has no code for this machine."""

    name = "cpu"
    has_gpu_arrays = False

    def __init__(self, pack: Pack, decoder: Decoder) -> None:
        self._pack, self._decoder = pack, decoder
        self.workers = available()
        self._forms: dict[str, CompiledProgram] = {}
        self._by_source: dict[Program, CompiledProgram] = {}
        self._launches: dict[Program, CompiledLaunch] = {}
        self._forms_of: dict[Program, Any] = {}

    def start(self) -> None:
        """Have the threads of this process run code of packs.  Raises PackError where the pack has none for this machine."""
        if not can_link():
            raise PackError(f"{self._pack.name}: code of packs runs on Linux, on x86-64 and aarch64")
        if self._pack.about.get("abi") != ABI:
            raise PackError(
                f"{self._pack.name} is for version {self._pack.about.get('abi')} of the calls of code, and this package makes "
                f"those of {ABI}; install the version of it that the pack was made for, or pack the kernels anew"
            )
        level = self._level({name.partition("/")[2] for name in self._pack.names("pool")})
        try:
            use_code(self._pack.read(f"pools/{level}"))
        except LinkError as error:
            raise PackError(f"{self._pack.name}: pools/{level} cannot be linked: {error}") from None

    def _level(self, packed: Collection[str]) -> str:
        """The best level of this machine among some.  Raises PackError."""
        own = levels_of_this_machine()
        level = next((level for level in own if level in packed), None)
        if level is None:
            raise PackError(
                f"{self._pack.name} has code for {', '.join(sorted(packed)) or 'no CPU'}, and this machine is {own[0]}; "
                "pack the kernels for that, too"
            )
        return level

    def program(self, key: str) -> CompiledProgram:
        """The program of a part."""
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = CompiledProgram(self._pack, key, self._decoder)
            self._by_source[form.source] = form
        return form

    def ptx(self, key: str, gpu: str | None) -> str:
        """The PTX of a program for a GPU, by default the first that the pack has.  Raises PackError."""
        names = [name for name in self._pack.names("ptx") if name.startswith(f"ptx/{key}/")]
        found = [name for name in names if gpu in (None, name.rpartition("/")[2])]
        if not found:
            packed = ", ".join(name.rpartition("/")[2] for name in names) or "no GPU"
            raise PackError(f"{self._pack.name} has PTX of this program for {packed}")
        return self._pack.read(found[0]).decode()

    def set_forms(self, program: Program, rows: Any) -> None:
        """Set what `forms_of` says of a program; `rows`: as a pack has it."""
        self._forms_of[program] = rows

    def forms_of(self, program: Program) -> Forms:
        return self._decoder.whole_writes(self._forms_of[program])

    def prepared(
        self, program: Program, module: Module | None = None, *, is_unchanged: bool = False
    ) -> CompiledLaunch:
        """See `CpuDispatcher.prepared`."""
        launch = self._launches.get(program)
        if launch is None:
            form = self._by_source[program]
            launch = CompiledLaunch(form, lambda: True, lambda: self._object_code(form), self.workers)
            self._launches[program] = launch
        return launch

    def _object_code(self, form: CompiledProgram) -> ObjectCode:
        facts = form.code[self._level(form.code)]
        code = HostCode(
            "",
            tuple(facts["buffers"]),
            frozenset(facts["written"]),
            facts["scratch_bytes"],
            facts["whole_grid"],
        )
        name = f"objects/{facts['object']}"
        try:
            library = link(self._pack.read(name), [ENTRY])
        except LinkError as error:
            raise PackError(f"{self._pack.name}: {name} cannot be linked: {error}") from None
        return ObjectCode(code, form.facts, LoadedFunction(library, ENTRY))

    def load(self, call: CallPlan) -> CpuPlan:
        return CpuPlan(self, call)

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
