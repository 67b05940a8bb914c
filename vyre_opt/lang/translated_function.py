"""Base of kernels and pipelines in Python: options, type variables, translation and calls.

A kernel or a pipeline under options, or for types of its variables, is another object of the same function, made once.
"""

from __future__ import annotations

import dis
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ..execution.arguments import Encoder, encoder_of
from ..execution.cache.ir_results import ir_result
from ..execution.cache.store import default_store
from ..ir.caller import caller_location
from ..ir.diagnostics import Diagnostic
from ..ir.program import Module, Program
from ..ir.tracebacks import public
from ..records import dataclass
from .generics import ByTypes, Variable, bound_types, refuse_variables, type_variables
from .program_warnings import also_warned, collected, give_warnings
from .python_source import FunctionSource, remember_source
from .translation_key import KeyedFunction, translation_key

if TYPE_CHECKING:
    from ..driver.executable import Executable
    from ..driver.in_place import InPlace
    from ..execution.dispatcher import Dispatcher
    from ..ir.pipeline import Pipeline

__all__ = ["TranslatedFunction"]


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Options of calls, see `TranslatedFunction.options`."""

    target: str | Dispatcher | None = None
    passes: str | None = "default"
    debug_info: bool = False


class TranslatedFunction(KeyedFunction, ABC):
    """A function of Python that is translated when it is first needed, and compiled once for each target.

    `types`: what its type variables are; None where the arrays of each call decide.
    """

    def __init__(self, function: Callable[..., Any], types: Mapping[Any, Any] | None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.types = function, types
        remember_source(function)
        self._module: Module | None = None
        self._warnings: list[Diagnostic] = []
        """Warnings of the translation."""
        self.constants: dict[str, Any] = {}
        """Numbers of the function's module that the translation has read, by their names."""
        self._options = CallOptions()
        self._original: Self | None = None
        """The one that `options` was called on."""
        self._generic: tuple[Self, tuple[Any, ...]] | None = None
        """The one that `at` was called on, and the types."""
        self._variants: dict[Any, Self] = {}
        """Results of `options` and `at`, by the options and by the types."""

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the function in place on arrays."""

    @abstractmethod
    def _remade(self, types: Mapping[Any, Any] | None) -> Self:
        """The same function for types of its variables, with default options."""

    @abstractmethod
    def _translated(self, for_debugger: bool = False) -> Module:
        """The module of the function."""

    @property
    def key_types(self) -> Mapping[Any, Any] | None:
        return self.types

    @property
    @abstractmethod
    def _item(self) -> Program | Pipeline:
        """The program or the pipeline of the module that the function is."""

    @property
    @abstractmethod
    def _array_positions(self) -> list[int]:
        """The positions of arrays among the arguments, in the order of the buffers."""

    def __reduce__(self) -> Any:
        if self._original is not None:
            return _with_options, (self._original, self._options)
        return self.function.__qualname__ if self._generic is None else (_at_types, self._generic)

    @public
    def options(
        self,
        *,
        target: str | Dispatcher | None = None,
        passes: str | None = "default",
        debug_info: bool = False,
    ) -> Self:
        """The same for a target, ref, cpu, cuda or a dispatcher, or after other passes (None: none).

        `debug_info`: with line tables, by which debuggers and profilers show the lines of the function.
        """
        original = self._original or self
        chosen = CallOptions(target, passes, bool(debug_info))
        # a dispatcher need have no hash: one for it is made at each call
        is_key = all(each is None or isinstance(each, str) for each in (target, passes))
        other = original._variants.get(chosen) if is_key else None
        if other is None:
            other = self._remade(self.types)
            other._module, other._warnings = self._module, self._warnings
            other.constants = self.constants
            other._original, other._options = original, chosen
            if is_key:
                original._variants[chosen] = other
        return other

    @property
    def call_options(self) -> CallOptions:
        """Choices of `options`."""
        return self._options

    @functools.cached_property
    def variables(self) -> list[Variable]:
        """The type variables that arrays of each call decide."""
        return type_variables(FunctionSource(self.function)) if self.types is None else []

    @public
    def at(self, *types: Any) -> Self:
        """The same for types of its variables, in the order in which its arrays name them: `kernel.at(f32)`.

        Raises BadInputs for types that are none of its variables.
        """
        other = self._variants.get(types)
        if other is None:
            other = self._remade(bound_types(self, types))
            other._options, other._generic = self._options, (self, types)
            self._variants[types] = other
        return other

    # --- the program

    @property
    @public
    def module(self) -> Module:
        """The module, translated now if it was not.  Raises DiagnosticError, and BadInputs for one with type variables."""
        if self._module is None:
            refuse_variables(self)
            key = translation_key(self)
            store = None if key is None else default_store()
            module, warnings = ir_result(store, "translate", key, (), self._translation)
            give_warnings(warnings)
            self._module, self._warnings = module, warnings
            names = self.function.__globals__
            read = [i.argval for i in dis.get_instructions(self.function) if i.opname == "LOAD_GLOBAL"]
            self.constants = {n: names[n] for n in read if type(names.get(n)) in (int, float, bool)}
        else:
            also_warned(self._warnings)
        return self._module

    def warn_of_constants(self) -> None:
        """Warn of each number of the module that is another one now: it is what it was when the function was translated."""
        names = self.function.__globals__
        for name, value in self.constants.items():
            if (new := names.get(name)) is not value:
                self.constants[name] = new
                self._warn_of_constant(name, value, new)

    def _warn_of_constant(self, name: str, value: Any, new: Any) -> None:
        if new == value or new != new:
            return
        kind, function = "f32" if isinstance(new, float) else "i32", self.function.__name__
        message = f"{name} was {value} when {function} was translated, and stays so in it; here it is {new}"
        help = f"pass a number that changes: declare {name.lower()}: {kind} in the head of {function}, and pass {name} for it"
        give_warnings([Diagnostic("warning", message, caller_location(), help=help)])

    def _translation(self) -> tuple[Module, list[Diagnostic]]:
        """The module, and the warnings about it, which are given by whoever asks for it."""
        with collected() as warnings:
            return self._translated(), warnings

    def debug_module(self) -> Module:
        """The module for a debugger: translated at each call, and its ops know the names of Python.  Raises DiagnosticError."""
        return self._translated(for_debugger=True)

    @functools.cached_property
    def parameters(self) -> list[str]:
        """The names of the arguments, in order."""
        return list(inspect.signature(self.function).parameters)

    @functools.cached_property
    def scalars(self) -> list[tuple[str, int, Encoder]]:
        """The numbers among the arguments, in the order of their names: name, position, and what makes words of them."""
        params = sorted(self._item.params.items())
        return [(n, self.parameters.index(n), encoder_of(self.function.__name__, p)) for n, p in params]

    # --- running

    @functools.cached_property
    def in_place(self) -> InPlace | ByTypes:
        """Runner of the function on arguments in its order."""
        if self.variables:
            return ByTypes(self, lambda types: self.at(*types)._own_in_place)
        return self._own_in_place

    @functools.cached_property
    def _own_in_place(self) -> InPlace:
        from ..driver.in_place import InPlace  # with NumPy and LLVM, which only a run needs

        return InPlace(self._compiled, self._options.target, self._array_positions, self.scalars, self._warn)

    @abstractmethod
    def _warn(self, grid: Any, arrays: Sequence[Any], params: Mapping[str, int]) -> None:
        """Warn of launches that do what was surely not meant on these arrays.  `params`: the whole numbers, by "@name"."""

    def _compiled(self, target: str | Dispatcher) -> Executable:
        from ..driver.compile import compile_module
        from ..execution.environment import passes_of_call

        passes, debug_info = passes_of_call(self._options.passes, target), self._options.debug_info
        name = self.function.__name__
        executable = compile_module(self.module, name, target, {}, passes, debug_info=debug_info)
        if executable.recorder is not None:
            executable.recorder.written = self.debug_module()
        return executable


def _with_options(original: Any, chosen: CallOptions) -> Any:
    return original.options(target=chosen.target, passes=chosen.passes, debug_info=chosen.debug_info)


def _at_types(generic: Any, types: Sequence[Any]) -> Any:
    return generic.at(*types)
