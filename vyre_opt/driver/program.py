"""A program as a function on arrays, which `vyre_opt.compile` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..ir.program import AccessMode, Program
from ..runtime.array_backend import is_torch
from ..runtime.dispatcher import BadInputs, OutputAlloc, Scratch
from ..runtime.kernel_call import Copied, KernelCall, planned_on_contiguous
from .binding import Signature, default_grid
from .executable import Executable, Grid, Inputs, output_like, take_argument
from .placement import architecture_of, array_backend_of
from .planned_function import remember

if TYPE_CHECKING:
    from ..lowering.nvptx.kernel import LoweredModule
    from ..lowering.nvptx.targets import GpuTarget

__all__ = ["DEFAULT_GPU", "ProgramExecutable"]


class ProgramExecutable(Executable):
    """A program that is compiled for a target and can be called.

    `program`: the program after passes, constants and expansion.
    """

    @property
    def program(self) -> Program:
        return self.module.programs[self.name]

    @cached_property
    def signature(self) -> Signature:  # type: ignore[override]  # after passes, unlike that of a pipeline
        return Signature.of(self.program)

    def __repr__(self) -> str:
        return f"<program @{self.program.name} for {self.target}>"

    def __call__(
        self,
        inputs: Inputs = (),
        grid: Grid = None,
        *,
        lengths: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        scratch: Scratch | None = None,
    ) -> dict[str, Any]:
        """Run, and return the outputs by name, in binding order.

        `inputs`: arrays (or bytes) by name; or in binding order, either for the buffers that the
        program may read before it writes them, or for all bound ones.  They are never modified.
        An array that is passed for an output gives its length, and the contents of elements that the
        program does not write; otherwise `lengths` has the number of elements of an output of open size, of several dimensions a tuple,
        and elements that are not written are 0 (on a GPU undefined, unless its dispatcher zeroes them).
        `grid`: workgroups along x, y and z, for a program that does not fix them.
        `params`: values of the program's runtime scalars by name; another value costs no compilation.
        `scratch`: storage that is reused by later calls.

        Outputs are of shape (count,), or (count, lanes), or of the shape of the array passed for
        them.  They are NumPy arrays, or torch tensors if there is one among the inputs; for cuda and
        arrays on a GPU they are on that GPU, of the library of the first of them.

        Raises BadInputs before anything runs, ProgramError for a fault of the program, and
        BackendError for any other failure.
        """
        fast, key, names, arrays = None, None, (), ()
        if scratch is None:
            fast, key, names, arrays = self._planned(inputs, grid, lengths)
        if fast is not None:
            words = self.param_words(params)
            return self.outputs(fast.run(arrays, tuple(words.values())) if words else fast.run(arrays))
        self._check_options(lengths, scratch)
        self.param_words(params)
        arguments = self.arguments(inputs, lengths or {})
        outputs = self.run(arguments, grid, scratch, params)
        if key is not None and arrays and outputs:
            self._plan(key, self._named(names, arrays), arguments, grid, outputs)
        return self.outputs(outputs)

    def _plan(
        self,
        key: Any,
        arrays: Mapping[str, Any],
        arguments: Sequence[Any],
        grid: Grid,
        outputs: Sequence[Any],
    ) -> None:
        """Plan later calls with like arrays, if they allow it; the rest is of this call."""
        signature = self.signature
        numbers = {name: number for number, name in enumerate(arrays)}
        places: list[int | OutputAlloc | Copied] = []
        for buffer, argument in zip(signature.parameters, arguments, strict=True):
            number = numbers.get(buffer.name)
            if number is None:
                places.append(argument)
            elif buffer.access is AccessMode.READ:
                places.append(number)
            else:
                places.append(Copied(number, buffer.is_output))
        backend = array_backend_of(self._target, arrays)
        workgroups = default_grid(self.program, arguments, self.syntax) if grid is None else grid
        call = KernelCall(self.program, workgroups, tuple(places), module=self.module, clears=True)
        operands = [backend.take(array, name) for name, array in arrays.items()]
        fast = planned_on_contiguous(
            backend, operands, lambda settled: backend.fast_call(call, settled, outputs)
        )
        if fast is not None:
            remember(self._fast, key, fast)

    def run(
        self,
        arguments: Sequence[Any],
        grid: Grid,
        scratch: Scratch | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        """The outputs in binding order."""
        bound, program = self.signature.parameters, self.program
        workgroups = default_grid(program, arguments, self.syntax) if grid is None else grid
        arrays = {b.name: a for b, a in zip(bound, arguments, strict=True) if not isinstance(a, OutputAlloc)}
        backend = array_backend_of(self._target, arrays)
        operands = [take_argument(backend, b, a) for b, a in zip(bound, arguments, strict=True)]
        outputs = backend.run(
            program, operands, workgroups, module=self.module, params=params, scratch=scratch
        )
        if backend.on_gpu:
            return outputs
        owner = next(filter(is_torch, arrays.values()), None)
        triples = zip(self._output_indices, self.signature.outputs, outputs, strict=True)
        return [output_like(backend, b, arguments[k], y, owner) for k, b, y in triples]

    @cached_property
    def _output_indices(self) -> list[int]:
        """The indices of the outputs among the bound buffers."""
        return [index for index, buffer in enumerate(self.signature.parameters) if buffer.is_output]

    # --- as text

    def llvm(self, gpu: str | None = None) -> str:
        """LLVM IR before LLVM's passes: for this machine if the target is cpu, for a GPU ("sm_90") if it is cuda.

        Raises BadInputs for ref, which compiles nothing, and for an unknown GPU.
        """
        if self.target == "cuda":
            return self._for_gpu(gpu)[0].text
        if self.target != "cpu":
            raise BadInputs(f"{self.target} compiles nothing; compile for cpu or cuda")
        from ..runtime.cpu.compiler import host_code
        from ..runtime.cpu.jit import Host

        return host_code(self.program, self.module, self.program.spec_defaults, Host.this()).text

    def ptx(self, gpu: str | None = None) -> str:
        """PTX for a GPU ("sm_90"): by default this machine's, or sm_80 where there is none."""
        from ..lowering.nvptx.ptx import emit_ptx

        lowered, gpu_target = self._for_gpu(gpu)
        return emit_ptx(lowered, gpu_target, None)

    def _for_gpu(self, gpu: str | None) -> tuple[LoweredModule, GpuTarget]:
        from ..lowering.nvptx.abi import Unit
        from ..lowering.nvptx.kernel import lower
        from ..lowering.nvptx.targets import TargetError
        from ..lowering.nvptx.targets import gpu as find_gpu

        if self.target != "cuda":
            raise BadInputs(f"this program is compiled for {self.target}; compile it for cuda")
        try:
            gpu_target = find_gpu(gpu or architecture_of(self.dispatcher) or DEFAULT_GPU)
        except TargetError as error:
            raise BadInputs(str(error)) from None
        options = getattr(self.dispatcher, "options", None)
        bounds = "trap" if options is None else options.bounds
        unit = Unit(self.program, self.module, self.program.spec_defaults)
        return lower([unit], gpu_target, bounds), gpu_target


DEFAULT_GPU = "sm_80"
