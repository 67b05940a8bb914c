"""A program as a function on arrays, which `vyre_opt.compile` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..execution.array_backend import ArrayBackend, Operand
from ..execution.dispatcher import BadInputs, OutputAlloc, Scratch
from ..execution.inputs import check_grid
from ..execution.kernel_call import plan_of
from ..execution.params import NO_PARAMS
from ..execution.plans.call_plan import CallPlan
from ..execution.target import as_target
from ..ir.program import AccessMode, Dim3, Module, Program
from ..ir.tracebacks import CallerError, hide_own_frames
from ..kernels.call import CopiedInput, KernelCall
from ..worker import import_module
from .binding import Signature, default_grid
from .executable import Executable, Grid, Inputs

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
        on_host_read: Callable[[str, Any], None] | None = None,
    ) -> dict[str, Any]:
        """Run, and return the outputs by name, in binding order.

        `inputs`: arrays (or bytes) by name; or in binding order, either for the buffers that the
        program may read before it writes them, or for all bound ones.  They are never modified.
        An array that is passed for an output gives its length, and the contents of elements that the
        program does not write; otherwise `lengths` has the number of elements of an output of open size, of several dimensions a tuple,
        and elements that are not written are 0 (on a GPU undefined, unless its dispatcher zeroes them).
        `grid`: workgroups along x, y and z, for a program that does not fix them.
        `params`: values of the program's runtime scalars by name; another value costs no compilation.
        `scratch`: storage that is reused by later calls.  `on_host_read`: as of a pipeline; a program has no reads of the host.

        Outputs are of shape (count,), or (count, lanes), or of the shape of the array passed for
        them.  They are NumPy arrays, or torch tensors if there is one among the inputs; for cuda and
        arrays on a GPU they are on that GPU, of the library of the first of them.

        Raises BadInputs before anything runs, ProgramError for a fault of the program, and
        BackendError for any other failure.
        """
        try:
            bound, key, arrays = self._planned(inputs, grid, lengths) if scratch is None else (None, None, ())
            if bound is not None:
                words = self.param_words(params) if params or self.signature.params else NO_PARAMS
                return self.outputs(bound.run(arrays, tuple(words.values())))
            self._check_options(lengths, scratch)
            self.param_words(params)
            arguments = self.arguments(inputs, lengths or {})
            return self.outputs(self.run(arguments, grid, scratch, None, params, key, inputs))
        except CallerError as error:
            hide_own_frames(error)
            raise

    def grid(self, grid: Grid, named: Mapping[str, Any]) -> Dim3:
        if grid is None:
            in_order = [named[buffer.name] for buffer in self.signature.parameters]
            grid = default_grid(self.program, in_order, self.syntax)
        return check_grid(self.program, grid)

    def plan(
        self,
        backend: ArrayBackend,
        named: Mapping[str, Any],
        grid: Dim3 | None,
        words: Mapping[str, int],
        has_storage: bool = False,
        in_place: bool = False,
    ) -> CallPlan:
        operands = [argument for argument in named.values() if isinstance(argument, Operand)]
        numbers = {name: k for k, name in enumerate(n for n, a in named.items() if isinstance(a, Operand))}
        arguments: list[int | OutputAlloc | CopiedInput] = []
        for buffer in self.signature.parameters:
            number = numbers.get(buffer.name)
            if number is None:
                arguments.append(named[buffer.name])
            else:
                is_used = in_place or buffer.access is AccessMode.READ
                arguments.append(number if is_used else CopiedInput(number, buffer.is_output))
        assert grid is not None
        call = KernelCall(self.program, grid, tuple(arguments), module=self.module, clears=True)
        return plan_of(call, operands, as_target(backend.dispatcher).forms_of)

    # --- as text

    def llvm(self, gpu: str | None = None) -> str:
        """LLVM IR before LLVM's passes: for this machine if the target is cpu, for a GPU ("sm_90") if it is cuda.

        Raises BadInputs for ref, which compiles nothing, and for an unknown GPU.
        """
        if self.target == "cuda":
            return self._for_gpu(gpu)[0].text
        if self.target != "cpu":
            raise BadInputs(f"{self.target} compiles nothing; compile for cpu or cuda")
        from ..targets.cpu.compiler import LegalForm
        from ..targets.cpu.host import Host
        from ..targets.cpu.host_code import host_code

        module, program = self._after_passes()
        legal = LegalForm(program, module).program
        return host_code(legal, program.spec_defaults, Host.this(debug_info=self._has_debug_info)).text

    def ptx(self, gpu: str | None = None) -> str:
        """PTX for a GPU ("sm_90"): by default this machine's, or sm_80 where there is none."""
        import_module("vyre_opt.lowering.nvptx.ptx")
        from ..lowering.nvptx.ptx import emit_ptx

        lowered, gpu_target = self._for_gpu(gpu)
        return emit_ptx(lowered, gpu_target, None)

    @property
    def _has_debug_info(self) -> bool:
        return as_target(self.dispatcher).has_debug_info

    def _after_passes(self) -> tuple[Module, Program]:
        """The program and its module; one with slices for rows of any length, since passes wait for those of a call."""
        if self._passes_of_slices is None:
            return self.module, self.program
        import_module("vyre_opt.rewriting.cloning")
        from ..rewriting.cloning import copy_for

        made = self._passes_of_slices.result(copy_for(self.module, self.program))
        return made, made.programs[self.name]

    def _for_gpu(self, gpu: str | None) -> tuple[LoweredModule, GpuTarget]:
        import_module("vyre_opt.lowering.nvptx.kernel")
        from ..lowering.nvptx.abi import Unit
        from ..lowering.nvptx.kernel import lower
        from ..lowering.nvptx.targets import TargetError
        from ..lowering.nvptx.targets import gpu as find_gpu

        if self.target != "cuda":
            raise BadInputs(f"this program is compiled for {self.target}; compile it for cuda")
        try:
            gpu_target = find_gpu(gpu or as_target(self.dispatcher).architecture or DEFAULT_GPU)
        except TargetError as error:
            raise BadInputs(str(error)) from None
        module, program = self._after_passes()
        unit = Unit(program, module, program.spec_defaults)
        bounds = as_target(self.dispatcher).bounds
        return lower([unit], gpu_target, bounds, self._has_debug_info), gpu_target


DEFAULT_GPU = "sm_80"
