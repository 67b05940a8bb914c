"""A program as a function of arrays; `vyre_opt.compile` makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..ir.program import Program
from ..runtime.array_backend import is_torch
from ..runtime.dispatcher import BadInputs, OutputAlloc, Scratch
from .binding import Signature, bind, default_grid
from .executable import Executable, Grid, Inputs, in_kind, taken
from .placement import array_backend_of

if TYPE_CHECKING:
    from ..lowering.nvptx.kernel import LoweredModule
    from ..lowering.nvptx.targets import GpuTarget

__all__ = ["DEFAULT_GPU", "ProgramExecutable"]


class ProgramExecutable(Executable):
    """A program of its own module, for a target: call it.

    `program`: after its passes, constants and expansion, and `name` its name.
    """

    @property
    def program(self) -> Program:
        return self.module.programs[self.name]

    @cached_property
    def signature(self) -> Signature:
        return Signature.of(self.program)

    def __repr__(self) -> str:
        return f"<program @{self.program.name} for {self.target}>"

    def __call__(
        self,
        inputs: Inputs = (),
        grid: Grid = None,
        *,
        lengths: Mapping[str, int] | None = None,
        scratch: Scratch | None = None,
    ) -> dict[str, Any]:
        """Run, and return the outputs by name, in binding order.

        `inputs`: arrays (or bytes) by name; or in binding order, either for the buffers that the
        program may read before it writes them, or for all bound ones.  They are never modified.
        An array that is given for an output says how long it is and what its elements hold where
        the program writes nothing; else `lengths` says how long one of open size is, and what is
        not written holds anything.
        `grid`: workgroups along x, y and z, for a program that does not fix them.
        `scratch`: storage to keep between calls.

        Outputs are of shape (count,), or (count, lanes), or of the shape of the array given for
        them.  They are NumPy arrays, or torch tensors where one is given; for cuda and arrays on a
        GPU they are on that GPU, of the library of the first of them.

        Raises BadInputs before anything runs, ProgramError for a program at fault, and
        BackendError for what else stops it.
        """
        arguments = self.arguments(inputs, lengths or {})
        return self.outputs(self.run(arguments, grid, scratch))

    def arguments(self, inputs: Inputs, lengths: Mapping[str, int]) -> list[Any]:
        """What a dispatch takes for each bound buffer.  Raises BadInputs."""
        return bind(self.signature, inputs, lengths, self.words)

    def run(self, arguments: Sequence[Any], grid: Grid, scratch: Scratch | None = None) -> list[Any]:
        """The outputs in binding order."""
        bound, program = self.signature.given, self.program
        workgroups = default_grid(program, arguments, self.words) if grid is None else grid
        arrays = {b.name: a for b, a in zip(bound, arguments, strict=True) if not isinstance(a, OutputAlloc)}
        place = array_backend_of(self._given, arrays)
        operands = [taken(place, b, a) for b, a in zip(bound, arguments, strict=True)]
        made = place.run(program, operands, workgroups, module=self.module, scratch=scratch)
        if place.on_gpu:
            return made
        owner = next(filter(is_torch, arrays.values()), None)
        back = zip(self._output_places, self.signature.outputs, made, strict=True)
        return [in_kind(place, b, arguments[k], y, owner) for k, b, y in back]

    @cached_property
    def _output_places(self) -> list[int]:
        """Where the outputs are among the bound buffers."""
        return [place for place, buffer in enumerate(self.signature.given) if buffer.is_output]

    def outputs(self, made: Sequence[Any]) -> dict[str, Any]:
        """What `run` returned, by name."""
        return dict(zip([b.name for b in self.signature.outputs], made, strict=True))

    # --- as text

    def llvm(self, gpu: str | None = None) -> str:
        """LLVM IR as the lowering writes it: of this machine for cpu, of a GPU ("sm_90") for cuda.

        Raises BadInputs for ref, which compiles nothing, and for an unknown GPU.
        """
        if self.target == "cuda":
            return self._for_gpu(gpu)[0].text
        if self.target != "cpu":
            raise BadInputs(f"{self.target} compiles nothing; compile for cpu or cuda")
        from ..runtime.cpu.compiler import host_code
        from ..runtime.cpu.jit import Host

        specs = {name: spec.default for name, spec in self.program.specs.items()}
        return host_code(self.program, self.module, specs, Host.this()).text

    def ptx(self, gpu: str | None = None) -> str:
        """PTX for a GPU ("sm_90"): by default this machine's, or sm_80 where there is none."""
        from ..lowering.nvptx.ptx import emit_ptx

        lowered, found = self._for_gpu(gpu)
        return emit_ptx(lowered, found, None)

    def _for_gpu(self, gpu: str | None) -> tuple[LoweredModule, GpuTarget]:
        from ..lowering.nvptx.abi import Unit
        from ..lowering.nvptx.kernel import lower
        from ..lowering.nvptx.targets import TargetError
        from ..lowering.nvptx.targets import gpu as find

        if self.target != "cuda":
            raise BadInputs(f"this program is compiled for {self.target}; compile it for cuda")
        try:
            found = find(gpu or self._gpu() or DEFAULT_GPU)
        except TargetError as unknown:
            raise BadInputs(str(unknown)) from None
        specs = {name: spec.default for name, spec in self.program.specs.items()}
        options = getattr(self.dispatcher, "options", None)
        bounds = "trap" if options is None else options.bounds
        return lower([Unit(self.program, self.module, specs)], found, bounds), found


DEFAULT_GPU = "sm_80"
