"""The base of `ProgramExecutable` and `PipelineExecutable`: from arguments to the plan of a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..execution.array_backend import ArrayBackend, Operand, is_torch
from ..execution.arrays import kind_of
from ..execution.bound_call import BoundCall, bind
from ..execution.dispatcher import (
    BackendError,
    BadInputs,
    Dispatcher,
    DispatcherLike,
    OutputAlloc,
    Scratch,
    shared_dispatcher,
)
from ..execution.limits import compiling
from ..execution.params import NO_PARAMS, param_words, value_of_word
from ..execution.plans.call_plan import CallPlan, Loaded
from ..execution.plans.watch import Times, Watch
from ..execution.shapes import argument_shape, array_of
from ..execution.signatures import SIGNATURES, exact
from ..execution.target import as_target
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.grids import length_key
from ..ir.program import Buffer, Dim3, Module, Op
from ..ir.shapes import has_slices
from ..ir.types import DataType
from ..worker import import_module
from .binding import PYTHON, CallSyntax, Signature
from .binding import bind as bind_arguments
from .in_place_arrays import in_place_operands
from .placement import array_backend_of
from .plans import remember

if TYPE_CHECKING:
    from ..passes.bisect import BisectLimit
    from ..passes.manager import Observer
    from .call_report import CallReport
    from .launch_rewrites import LaunchRewrites
    from .pass_pipeline import Passes, PassPipeline
    from .recording import Recorder

__all__ = ["Executable", "Grid", "Inputs"]

Inputs = Mapping[str, Any] | Sequence[Any]
Grid = int | Sequence[int] | None
MAX_LOADED = 64
MAX_KEPT_BYTES = 1 << 30
"""Limits of the kept plans, one for each set of lengths: their number, and the bytes that they keep."""

ROUNDS, SECONDS = 21, 0.25
"""Runs of `time`, or as many as begin within so many seconds."""


class Executable(ABC):
    """Base of programs and pipelines that can be called.

    `module`: a copy for this executable, after passes, constants and expansion, which must not be changed
    after the first call; `name`: the program or pipeline in it.
    """

    signature: Signature

    def __init__(
        self, module: Module, name: str, dispatcher: DispatcherLike, syntax: CallSyntax = PYTHON
    ) -> None:
        self.module = module
        self.name = name
        self.syntax = syntax
        self.dispatcher: Dispatcher = shared_dispatcher(dispatcher)
        self._target = dispatcher
        self.recorder: Recorder | None = None
        """Recorder of calls that fault; None where nobody asks for one."""
        self._scheduled: set[str] = set()
        """The programs that are those of named kernels."""
        self._passes_of_slices: PassPipeline | None = None
        """Passes that run once lengths of rows are known."""
        self._lowers_on_ref = False
        """Whether a caller named the passes of slices, so that the interpreter runs what they make."""
        self._bound: OrderedDict[Any, BoundCall] = OrderedDict()
        """Bound calls by the facts that calls with like arguments share."""
        self._loaded: OrderedDict[Any, tuple[CallPlan, Loaded]] = OrderedDict()
        self._lock = Lock()

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.dispatcher.name

    def arguments(
        self, inputs: Inputs, lengths: Mapping[str, Any], params: Mapping[str, int] = NO_PARAMS
    ) -> list[Any]:
        """The array for each buffer of the signature, or `OutputAlloc`.  Raises BadInputs.

        `params`: the words of the runtime scalars, on which sizes of buffers may depend.
        """
        return bind_arguments(self.signature, inputs, lengths, self.syntax, self.extent_params(params))

    def extent_params(self, params: Mapping[str, int]) -> dict[str, int]:
        """The whole numbers among the runtime scalars, as expressions of sizes and grids name them."""
        declared = self.signature.params
        return {
            f"@{name}": value_of_word(bits, declared[name])
            for name, bits in params.items()
            if declared[name].dtype.is_int
        }

    def param_words(self, params: Mapping[str, Any] | None) -> dict[str, int]:
        """The words of the runtime scalars, by name in order (see execution/params.py).  Raises BadInputs."""
        declared = self.signature.params
        if not declared and not params:
            return {}
        for name, value in params.items() if isinstance(params, Mapping) else ():
            plain = str(name).removeprefix("@")
            if plain not in declared and any(plain in p.specs for p in self.module.programs.values()):
                how = self.syntax.scalar(self.syntax.give_spec, plain, value)
                raise BadInputs(f"{self.signature.title} has no param @{plain}: it is a spec, pass {how}")
        return param_words(self.signature.title, declared, params, self.syntax.give_param)

    @staticmethod
    def _check_options(lengths: Any, scratch: Any) -> None:
        if lengths is not None and not isinstance(lengths, Mapping):
            raise BadInputs(f"lengths are numbers by the names of buffers, not {type(lengths).__name__}")
        if scratch is not None and not isinstance(scratch, Scratch):
            raise BadInputs(f"scratch is a vyre_opt.Scratch, not {type(scratch).__name__}")

    def _planned(
        self, inputs: Inputs, grid: Grid, lengths: Mapping[str, Any] | None, words: tuple[int, ...] = ()
    ) -> tuple[BoundCall | None, Any, Any]:
        """The call of an earlier one with like arguments, their key, and the arrays of the inputs.

        There is no key for inputs that no plan fits, such as bytes.  `words`: what else a plan is for.
        """
        try:
            kind = type(inputs)
            if kind is not dict and kind is not list and kind is not tuple:
                return None, None, ()
            arrays: Any = [*inputs.values()] if kind is dict else inputs  # type: ignore[union-attr]
            names: Any = inputs if kind is dict else ()
            # the types, as of what is `exact`
            key = (grid, type(grid), *names, *[SIGNATURES[type(array)](array) for array in arrays])
            if isinstance(grid, tuple):
                key += exact(grid)
            if lengths:
                key = (*key, *lengths, *map(exact, lengths.values()))
            if words:
                key = (*key, words)
            return self._bound.get(key), key, arrays
        except (KeyError, TypeError, RuntimeError, AttributeError, ValueError):
            return None, None, ()

    def run(
        self,
        arguments: Sequence[Any],
        grid: Grid = None,
        scratch: Scratch | None = None,
        watch: Watch | None = None,
        params: Mapping[str, Any] | None = None,
        key: Any = None,
        order: Inputs = (),
    ) -> list[Any]:
        """The outputs in order.

        `arguments`: see `arguments`.  `key`: what later calls with like arguments have in common, None where each is to be
        looked at; `order`: the names by which these pass their arrays, if they do.
        """
        words = self.param_words(params)
        backend, named, operands = self._operands(arguments, order)
        call, loaded = self._load(backend, named, grid, words, has_storage=scratch is not None)
        results = [self._new_result(backend, b, named, operands) for b in self.signature.outputs]
        passed = [*operands.values()]
        if scratch is not None:
            passed += [self._stored(backend, call.plan.buffers[name], scratch) for name in call.storage]
        bound, arrays = bind(backend, call, loaded, passed, results)
        if key is not None and bound.is_lasting and arrays:
            remember(self._bound, key, bound)
        values = tuple(words.values())
        if watch is None:
            return bound.fill(arrays, values, results)
        watch.allocate = backend.allocate
        return bound.watched(watch, arrays, values, results)

    def _operands(
        self, arguments: Sequence[Any], order: Inputs = ()
    ) -> tuple[ArrayBackend, dict[str, Any], dict[str, Operand]]:
        """The backend for arguments; by buffer an operand or `OutputAlloc`; and the operands alone.  Raises BadInputs."""
        buffers = {buffer.name: buffer for buffer in self.signature.buffers}
        named: dict[str, Any] = dict(zip(buffers, arguments, strict=True))
        if isinstance(order, Mapping):
            named = {name: named[name] for name in [*(name.removeprefix("@") for name in order), *named]}
        given = {name: a for name, a in named.items() if not isinstance(a, OutputAlloc)}
        backend = array_backend_of(self._target, given)
        owner = self.signature.owner
        operands = {
            name: backend.operand(
                array, buffers[name], self._where(buffers[name]), f"inputs[{name!r}]", owner
            )
            for name, array in given.items()
        }
        return backend, named | operands, operands

    # --- how well it uses the machine

    def report(
        self,
        inputs: Inputs = (),
        grid: Grid = None,
        *,
        lengths: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> CallReport:
        """Report of a call with these arguments: the bytes and operations of each launch, the resource that limits it, the
        forms that it got and those that were refused.  Nothing runs.  Raises BadInputs."""
        self._check_options(lengths, None)
        words = self.param_words(params)
        return self.report_on(self.arguments(inputs, lengths or {}, words), grid, params)

    def time(
        self,
        inputs: Inputs = (),
        grid: Grid = None,
        *,
        lengths: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> CallReport:
        """The same, and how long each launch takes, beside a copy of as many bytes there: medians of some runs.

        Arrays are not changed, and nothing that the program prints is shown.  Raises what a call does.
        """
        self._check_options(lengths, None)
        words = self.param_words(params)
        arguments = self.arguments(inputs, lengths or {}, words)
        return self.report_on(arguments, grid, params, self.rounds(arguments, grid, params))

    def report_on(
        self,
        arguments: Sequence[Any],
        grid: Grid = None,
        params: Mapping[str, Any] | None = None,
        rounds: Sequence[Times] = (),
    ) -> CallReport:
        """See `report` and `time`; `arguments`: see `arguments`; `rounds`: the times of runs of the same call."""
        import_module("vyre_opt.driver.call_report")
        from .call_report import call_report

        words = self.param_words(params)
        backend, named, _ = self._operands(arguments)
        if rounds:
            call, _ = self._load(
                backend, named, grid, words
            )  # that of the runs, whose programs have the times
        else:
            call = self._rewritten(backend, named, self.grid(grid, named), words)
        return call_report(call, as_target(backend.dispatcher), words, rounds)

    def rounds(self, arguments: Sequence[Any], grid: Grid, params: Mapping[str, Any] | None) -> list[Times]:
        """The times of some runs, without those of the first, which compiles."""
        from ..execution.debug_prints import on_debug_print

        rounds: list[Times] = []
        with on_debug_print(lambda line: None):
            self.run(arguments, grid, params=params)
            end = perf_counter() + SECONDS
            while len(rounds) < ROUNDS and (not rounds or perf_counter() < end):
                times = Times()
                self.run(arguments, grid, watch=Watch(None, times), params=params)
                rounds.append(times)
        return rounds

    def _stored(self, backend: ArrayBackend, buffer: Buffer, scratch: Scratch) -> Operand:
        """The memory that a caller keeps for a buffer of the plan's own."""
        memory = backend.storage(buffer, scratch.storage.get(buffer.name))
        scratch.storage[buffer.name] = memory.owner
        return memory

    def bind_in_place(
        self, arrays: Sequence[Any], grid: Grid, words: Mapping[str, int]
    ) -> tuple[BoundCall, Sequence[Any]]:
        """The call on arrays like these, one for each of `signature.parameters`, that works on the arrays themselves; and
        the arrays for its first run.  Raises BadInputs."""
        if grid is not None:
            self.grid(grid, {})
        backend, operands = in_place_operands(self.signature, self.name, self.dispatcher, arrays)
        named = dict(zip((b.name for b in self.signature.parameters), operands, strict=True))
        given = self.arguments({name: each.owner for name, each in named.items()}, {}, words)
        full = {b.name: named.get(b.name, a) for b, a in zip(self.signature.buffers, given, strict=True)}
        call, loaded = self._load(backend, full, grid, words, in_place=True)
        return bind(backend, call, loaded, operands, [])

    def _load(
        self,
        backend: ArrayBackend,
        named: Mapping[str, Any],
        grid: Grid,
        words: Mapping[str, int],
        has_storage: bool = False,
        in_place: bool = False,
    ) -> tuple[CallPlan, Loaded]:
        """The plan of a call, compiled; that of an earlier call if it was for like arguments.

        `named`: by buffer an operand or `OutputAlloc`.  `has_storage`: see `pipeline_call`.
        """
        passed = tuple(name for name, argument in named.items() if isinstance(argument, Operand))
        sizes, workgroups = self.lengths(named), self.grid(grid, named)
        # the id: a dispatcher of the caller's need have no hash, and those that calls choose are never gone
        key = (
            id(backend.dispatcher),
            backend.on_gpu,
            workgroups,
            tuple(sizes.items()),
            self.shape_words(words),
            passed,
            has_storage,
            in_place,
        )
        with self._lock:
            known = self._loaded.get(key)
            if known is not None:
                self._loaded.move_to_end(key)
                return known
        with compiling():
            call = self._rewritten(backend, named, workgroups, words, has_storage, in_place)
        loaded = backend.load(call)
        if self.recorder is not None:
            loaded = self.recorder.around(call, loaded, backend, workgroups)
        known = call, loaded
        with self._lock:
            # another thread may have made one meanwhile
            known = self._loaded.setdefault(key, known)
            self._drop_old()
        return known

    def _rewritten(
        self,
        backend: ArrayBackend,
        named: Mapping[str, Any],
        grid: Dim3 | None,
        words: Mapping[str, int],
        has_storage: bool = False,
        in_place: bool = False,
    ) -> CallPlan:
        """The plan of a call, with its launches in the forms that are best for it; see `_load`."""
        call = self.plan(backend, named, grid, words, has_storage, in_place)
        return self.rewrites.of(call, as_target(backend.dispatcher))

    @cached_property
    def rewrites(self) -> LaunchRewrites:
        """Rewrites of launches into their best forms."""
        import_module("vyre_opt.driver.launch_rewrites")
        from .launch_rewrites import LaunchRewrites

        return LaunchRewrites(self.module, self._scheduled, self._passes_of_slices, self._lowers_on_ref)

    def _drop_old(self) -> None:
        """Drop plans used longest ago where there are too many, or they keep too much memory; under the lock."""
        kept = sum(loaded.kept_bytes for _, loaded in self._loaded.values())
        while len(self._loaded) > MAX_LOADED or (kept > MAX_KEPT_BYTES and len(self._loaded) > 1):
            _, (_, old) = self._loaded.popitem(last=False)
            kept -= old.kept_bytes
            for key, bound in list(self._bound.items()):
                if bound.loaded is old:
                    del self._bound[key]

    @abstractmethod
    def grid(self, grid: Grid, named: Mapping[str, Any]) -> Dim3 | None:
        """The workgroups of a call, checked; None for a pipeline, which says them itself."""

    @abstractmethod
    def plan(
        self,
        backend: ArrayBackend,
        named: Mapping[str, Any],
        grid: Dim3 | None,
        words: Mapping[str, int],
        has_storage: bool = False,
        in_place: bool = False,
    ) -> CallPlan:
        """The plan of a call; see `_load`."""

    def lengths_of_call(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """The lengths of the buffers in a call on arrays, by name, without numbers.  Raises BadInputs."""
        _, named, _ = self._operands(self.arguments(arrays, {}))
        return self.lengths(named)

    def lengths(self, named: Mapping[str, Any]) -> dict[str, int]:
        """The lengths of the buffers, and the extents of those of several dimensions, for operands and `OutputAlloc`s."""
        lengths: dict[str, int] = {}
        for buffer in self.signature.buffers:
            argument = named[buffer.name]
            if buffer.count is not None:
                lengths[buffer.name] = buffer.count
            elif isinstance(argument, OutputAlloc):
                lengths[buffer.name] = argument.count
            else:
                lengths[buffer.name] = argument.count // buffer.dtype.lanes
            if buffer.dimensions > 1:
                where = f"{self.signature.title}: @{buffer.name}"
                extents = argument_shape(buffer, argument, where)
                lengths |= {length_key(buffer.name, number): extent for number, extent in enumerate(extents)}
        return lengths

    @property
    def shape_params(self) -> Sequence[str]:
        """The params that grids and sizes depend on."""
        return ()

    def shape_words(self, words: Mapping[str, int]) -> tuple[int, ...]:
        """The words of `shape_params`, which a plan is for."""
        return tuple([words[name] for name in self.shape_params]) if words else ()

    def _where(self, buffer: Buffer) -> str:
        """Beginning of messages about the argument for a buffer."""
        binding = "" if buffer.binding is None else f" (binding {buffer.binding})"
        return f"{self.signature.title}: input for @{buffer.name}{binding}"

    def _new_result(
        self, backend: ArrayBackend, buffer: Buffer, named: Mapping[str, Any], operands: Mapping[str, Operand]
    ) -> Any:
        """A new array for an output: of the shape of the array that was passed for it, if one was."""
        argument = named[buffer.name]
        passed = operands.get(buffer.name)
        if passed is not None:
            shape = passed.shape
        elif buffer.dimensions > 1:
            shape = array_of(
                buffer, argument_shape(buffer, argument, f"{self.signature.title}: @{buffer.name}")
            )
        else:
            shape = (argument.count, buffer.dtype.lanes) if buffer.dtype.is_vec else (argument.count,)
        like, kind = self._like(backend, buffer, operands)
        try:
            return backend.new_result(shape, kind, like)
        except BackendError as error:
            raise BackendError(f"{self.signature.title}: {error}") from None

    def _like(
        self, backend: ArrayBackend, buffer: Buffer, operands: Mapping[str, Operand]
    ) -> tuple[Any, str]:
        """The array whose library an output is of, and the output's type.

        In main memory outputs are torch's if a tensor is among the arguments.
        """
        passed = operands.get(buffer.name)
        if not backend.on_gpu:
            tensor = next((each.owner for each in operands.values() if is_torch(each.owner)), None)
            like = tensor if tensor is not None or passed is None else passed.owner
            is_bf16 = buffer.dtype.element is DataType.BF16
            return like, "bfloat16" if is_bf16 else kind_of(buffer.dtype, None)
        if passed is not None:
            return passed.owner, passed.kind
        first, leader = next(iter(operands.items()))
        element = next(b.dtype for b in self.signature.buffers if b.name == first)
        return leader.owner, kind_of(buffer.dtype, leader.owner, element, leader.kind)

    def outputs(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """The outputs that `run` returned, by name."""
        names = self._output_names
        if len(names) == 1:  # half a microsecond faster than zip
            return {names[0]: arrays[0]}
        return dict(zip(names, arrays, strict=True))

    @cached_property
    def _output_names(self) -> tuple[str, ...]:
        return tuple(buffer.name for buffer in self.signature.outputs)

    def transform(
        self, passes: Passes, bisect: BisectLimit | None = None, observers: Sequence[Observer] = ()
    ) -> None:
        """Run a pipeline of passes, then expand ops of other packages, and the kernels that are programs.

        The interpreter runs the kernels of this package as they are.

        Before the first call only.  `bisect`: leaves out executions of passes.  `observers`: hear of those that run now.
        Raises BadInputs for a wrong pipeline, DiagnosticError for a kernel that has no program.
        """
        for name in ("driver.pass_pipeline", "execution.cache.ir_results", "rewriting.core_form"):
            import_module(f"vyre_opt.{name}")
        from ..execution.cache.ir_results import ir_result
        from .pass_pipeline import PassPipeline

        store = as_target(self.dispatcher).store
        native = self.target == "ref"
        program = self.module.programs.get(self.name)
        waits = bool(passes) and bisect is None and program is not None and has_slices(program)
        pipeline = PassPipeline(passes, self.schedules_for, store, bisect, () if waits else observers)
        if waits:
            self._passes_of_slices = pipeline
            if pipeline.store is None:
                pipeline.manager  # noqa: B018  what is wrong with it is said now
            self._lowers_on_ref = native and pipeline.lowers_slices_by_name
        has_run = not passes or self._passes_of_slices is not None

        def make() -> tuple[Module, list[str]]:
            return _transformed(self.module, None if has_run else pipeline, native, self.schedules_for)

        options = passes, has_run, native, self.schedules_for
        self.module, scheduled = ir_result(pipeline.store, "transform", options, (self.module,), make)
        self._scheduled = set(scheduled)

    @property
    def schedules_for(self) -> str:
        """Key of schedules: the architecture of the GPU ("sm_90"), or the name of the target."""
        return as_target(self.dispatcher).schedules


def _transformed(
    module: Module, pipeline: PassPipeline | None, native: bool, target: str
) -> tuple[Module, list[str]]:
    """The module after passes and expansions, and which of its programs were those of named kernels.

    `native`: kernels of this package stay as they are.
    """
    if pipeline is not None:
        import_module("vyre_opt.ir.verifier")
        from ..ir.verifier import check

        pipeline.manager.run(module)
        check(module)
    from ..rewriting.core_form import core_module

    module = core_module(module)
    scheduled = sorted({name for name, _ in _kernels(module)})
    if not scheduled:
        return module, scheduled
    import_module("vyre_opt.passes.manager")
    from ..kernels.expansion import is_of_plugin
    from ..passes.manager import PassManager

    kernels = [op for _, op in _kernels(module) if not native or is_of_plugin(op.name)]
    if not kernels:
        return module, scheduled
    expansion = f"expand_kernels{{native={str(native).lower()}}}"
    result = PassManager(expansion, target=target).run(module)
    reasons = {id(remark.loc): remark.message for remark in result.remarks if remark.kind == "refused"}
    errors = [
        Diagnostic("error", f"program @{name}: {reasons.get(id(op.loc), op.name)}", op.loc)
        for name, op in _kernels(module)
        if op in kernels
    ]
    if errors:
        raise DiagnosticError(errors)
    return module, scheduled


def _kernels(module: Module) -> list[tuple[str, Op]]:
    """The named kernels in programs, each with the name of its program."""
    return [
        (program.name, op)
        for program in module.programs.values()
        for op in program.body.ops
        if op.definition.kernel is not None
    ]
