"""The target of a pack's functions: their programs are compiled already, for this processor or an older one."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from ..execution.plans.call_plan import CallPlan
from ..execution.processors import available
from ..ir.program import Module, Op, Program
from ..linker.library import LinkError, can_link, link
from ..lowering.host.abi import ENTRY
from ..pack_files.format import Pack, PackError
from ..targets.cpu.launch import CompiledLaunch
from ..targets.cpu.linking import LoadedFunction
from ..targets.cpu.loaded_plan import CpuPlan
from ..targets.cpu.object_code import ObjectCode, checked_code, checked_facts
from ..targets.cpu.thread_pool import use_code
from .decoding import decoding, text
from .ir_data import Decoder
from .pack_target import PackTarget, gpus_of
from .processors import levels_of_this_machine

__all__ = ["PackedTarget"]


class CompiledProgram:
    """A program that a pack has code of.  See `LaunchForm` for `source`, `program` and `op_at`.

    `code`: see `HostCode`, and the keys of objects, by level.
    """

    records = None  # programs that print are not packed

    def __init__(self, pack: Pack, key: str, decoder: Decoder) -> None:
        name = f"programs/{key}"
        row = pack.read_json(name)
        self.key, self._pack, self._decoder = key, pack, decoder
        with decoding(pack, name):
            self.source = decoder.program(row["source"])
            self.program = decoder.program(row["legal"])
            self.facts = checked_facts(row["facts"])
            self.code = {
                level: (checked_code(facts, self.program), text(facts["object"]))
                for level, facts in row["code"].items()
            }

    @cached_property
    def _ops(self) -> dict[int, Op]:
        name = f"faults/{self.key}"
        rows = self._pack.read_json(name)
        with decoding(self._pack, name):
            return {n: self._decoder.op(row) for n, row in rows}

    def op_at(self, number: int) -> Op:
        with decoding(self._pack, f"faults/{self.key}"):
            return self._ops[number]


class PackedTarget(PackTarget[CompiledProgram]):
    """Runs the programs of a pack.  Raises PackError where it has no code for this machine."""

    name = "cpu"

    def __init__(self, pack: Pack, decoder: Decoder) -> None:
        super().__init__(pack, decoder)
        self.workers, self._is_started = available(), False
        self._launches: dict[Program, CompiledLaunch] = {}

    def plan_of(self, function: str) -> str:
        """The part with the plan of a function.  Raises PackError where there is no code for this machine."""
        name = f"plans/{function}/cpu"
        if name not in self._pack:
            raise PackError(
                f"{self._pack.name}: {function} is packed for {', '.join(gpus_of(self._pack, function)) or 'nothing'} and no CPU; "
                "pass arrays on such a GPU, or pack it for a CPU, too"
            )
        self.start()
        return name

    def decoded(self, key: str) -> CompiledProgram:
        return CompiledProgram(self._pack, key, self._decoder)

    def start(self) -> None:
        """Have the threads of this process run code of packs.  Raises PackError where the pack has none for this machine."""
        if self._is_started:
            return
        if not can_link():
            raise PackError(f"{self._pack.name}: code of packs runs on Linux, on x86-64 and aarch64")
        level = self._level({name.partition("/")[2] for name in self._pack.names("pool")})
        try:
            use_code(self._pack.read(f"pools/{level}"))
        except LinkError as error:
            raise PackError(f"{self._pack.name}: pools/{level} cannot be linked: {error}") from None
        self._is_started = True

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

    def prepared(
        self, program: Program, module: Module | None = None, *, is_unchanged: bool = False
    ) -> CompiledLaunch:
        """See `CpuDispatcher.prepared`."""
        launch = self._launches.get(program)
        if launch is None:
            form = self.form_of(program)
            launch = CompiledLaunch(form, lambda: True, lambda: self._object_code(form), self.workers)
            self._launches[program] = launch
        return launch

    def _object_code(self, form: CompiledProgram) -> ObjectCode:
        code, key = form.code[self._level(form.code)]
        name = f"objects/{key}"
        try:
            library = link(self._pack.read(name), [ENTRY])
        except LinkError as error:
            raise PackError(f"{self._pack.name}: {name} cannot be linked: {error}") from None
        return ObjectCode(code, form.facts, LoadedFunction(library, ENTRY))

    def load(self, call: CallPlan) -> CpuPlan:
        return CpuPlan(self, call)
