"""Types that the arrays of each call decide: `def scale(x: Read[Float], y: Write[Float], by: Float)`.

A type variable is a family of types, `Scalar`, `Int` or `Float`, or a `typing.TypeVar` with such a bound or with scalar types as
constraints.  It is one type in a call, and for each that is met the function is translated and compiled once.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, TypeVar

from ..execution.dispatcher import BadInputs
from ..ir.types import DataType
from ..records import dataclass
from .python_source import FunctionSource
from .scalars import Float, Int, Scalar, python_type, scalar_type, types_of
from .types import Read, ReadWrite, Write

if TYPE_CHECKING:
    from ..driver.call_report import CallReport
    from ..driver.in_place import InPlace

__all__ = [
    "ByTypes",
    "Variable",
    "bound_types",
    "for_arrays",
    "refuse_variables",
    "specialized",
    "type_variables",
    "types_of_call",
    "unbound_help",
    "widest_types",
]

_FAMILIES = (Scalar, Int, Float)
Types = Mapping[Any, Any]
"""The scalar types that variables are, by the families or the TypeVars themselves."""


@dataclass(frozen=True)
class Variable:
    """A type variable of a function.  `key`: what annotations have; `arrays`: the arguments whose elements it is."""

    key: Any
    arrays: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.key.__name__)

    @property
    def choices(self) -> list[DataType]:
        """The types that it may be."""
        return _choices(self.key)

    def type_of(self, owner: str, elements: Mapping[str, DataType]) -> Any:
        """The type that it is for arrays, by the names of their arguments.  Raises BadInputs."""
        first, *others = self.arrays
        dtype = elements[first]
        for other in others:
            if elements[other] is not dtype:
                message = f"{owner}: {first} is of {dtype} and {other} of {elements[other]}, and both are of the type {self.name}"
                raise BadInputs(f"{message}: convert one, or give each a TypeVar of its own")
        return self.checked(owner, dtype, first)

    def checked(self, owner: str, dtype: DataType | None, subject: str = "") -> Any:
        """Python's name of a type.  Raises BadInputs for one that the variable cannot be."""
        if dtype not in self.choices:
            shown = f"{subject} is of {dtype}, and " if subject else ""
            raise BadInputs(f"{owner}: {shown}{self.name} is one of {', '.join(map(str, self.choices))}")
        assert dtype is not None
        return bool if dtype.is_bool else python_type(dtype)


def _choices(key: Any) -> list[DataType]:
    """The types that a type variable may be; none for what is no type variable."""
    if isinstance(key, TypeVar):
        if key.__constraints__:
            choices = [scalar_type(each) for each in key.__constraints__]
            return [dtype for dtype in choices if dtype is not None] if None not in choices else []
        key = key.__bound__
    return types_of(key) if key in _FAMILIES else []


def type_variables(source: FunctionSource) -> list[Variable]:
    """Type variables of a function, in the order in which its arrays name them.

    A variable of numbers alone is none: the translation tells that it is no type.
    """
    arrays: dict[Any, list[str]] = {}
    for name, annotation in source.function.__annotations__.items():
        elements = _elements(_evaluated(source, annotation))
        if name != "return" and elements is not None and _choices(elements):
            arrays.setdefault(elements, []).append(name)
    return [Variable(key, tuple(names)) for key, names in arrays.items()]


def widest_types(source: FunctionSource) -> dict[Any, Any]:
    """A type for each variable of a function, for checks of what does not depend on which it is."""
    return {v.key: v.checked(source.name, v.choices[-1]) for v in type_variables(source)}


def unbound_help(annotation: Any) -> str | None:
    """Remedy for an annotation with a type variable that no array decides; None for any other."""
    key = annotation if isinstance(annotation, (type, TypeVar)) else _elements(annotation)
    if isinstance(key, TypeVar) and not _choices(key):
        return f'say which types {key.__name__} may be: TypeVar("{key.__name__}", bound=Float)'
    return (
        "name a type such as f32, or take an array of this type, too, which says what it is"
        if _choices(key)
        else None
    )


def _evaluated(source: FunctionSource, annotation: Any) -> Any:
    """An annotation, which may be written as text; None where that is wrong, which the translation tells."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(source.names))
    except Exception:  # of the caller's names: it may be anything
        return None


def _elements(annotation: Any) -> Any:
    """The type of the elements of an array; None for what is no array."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) not in (Read, Write, ReadWrite) or len(arguments) != 1:
        return None
    return getattr(arguments[0], "__origin__", arguments[0])


def specialized(annotation: Any, types: Types) -> Any:
    """An annotation with types in place of type variables."""
    if isinstance(annotation, (type, TypeVar)):
        return types.get(annotation, annotation)
    elements = _elements(annotation)
    if elements is None or elements not in types:
        return annotation
    form: Any = Annotated
    extents = getattr(typing.get_args(annotation)[0], "__metadata__", ())
    return typing.get_origin(annotation)[form[(types[elements], *extents)] if extents else types[elements]]


class Generic(Protocol):
    """A kernel or a pipeline, as far as type variables need it."""

    function: Callable[..., Any]

    @property
    def variables(self) -> list[Variable]: ...

    @property
    def parameters(self) -> list[str]: ...

    def at(self, *types: Any) -> Self: ...


G = TypeVar("G", bound=Generic)


def bound_types(of: Generic, types: Sequence[Any]) -> dict[Any, Any]:
    """Types of the variables of a kernel or a pipeline, in their order, by the variables.

    Raises BadInputs for types that are none of them.
    """
    owner, variables = f"{of.function.__name__}.at", of.variables
    if len(types) != len(variables):
        names = ", ".join(variable.name for variable in variables)
        raise BadInputs(
            f"{owner} takes a type for each type variable, {names or 'and there is none'}, not {len(types)}"
        )
    given = map(scalar_type, types)
    return {v.key: v.checked(owner, dtype) for v, dtype in zip(variables, given, strict=True)}


def refuse_variables(of: Generic) -> None:
    """Raises BadInputs for a kernel or a pipeline with type variables, of which only its specializations have a program."""
    if of.variables:
        name, names = of.function.__name__, ", ".join(variable.name for variable in of.variables)
        types = ", ".join(str(variable.choices[-1]) for variable in of.variables)
        raise BadInputs(
            f"{name} has a program for each type that {names} may be: name one, as {name}.at({types})"
        )


def types_of_call(of: Generic, arrays: Mapping[str, Any]) -> list[Any]:
    """The types of variables for arrays by the names of their arguments.  Raises BadInputs."""
    from ..driver.placement import array_backend_of

    owner = of.function.__name__
    needed = {name: arrays[name] for v in of.variables for name in v.arrays if name in arrays}
    if len(needed) < sum(len(v.arrays) for v in of.variables):
        refuse_variables(of)
    backend = array_backend_of(None, needed)
    kinds = {name: backend.take(array, f"{owner}: {name}").kind for name, array in needed.items()}
    for name, kind in kinds.items():
        if kind not in _by_kind():
            raise BadInputs(f"{owner}: {name} is of {kind}, which is no type of a kernel")
    elements = {name: _by_kind()[kind] for name, kind in kinds.items()}
    return [variable.type_of(owner, elements) for variable in of.variables]


def for_arrays(of: G, arrays: Mapping[str, Any]) -> G:
    """A kernel or a pipeline for the types of a call's arrays, by the names of arguments: itself if it has no type variables.

    Raises BadInputs.
    """
    return of.at(*types_of_call(of, arrays)) if of.variables else of


@functools.cache
def _by_kind() -> dict[str, DataType]:
    """Types by the names that NumPy and torch have for them."""
    from ..execution.arrays import storage_type

    own = [d for d in (*types_of(Scalar), DataType.BOOL) if d is not DataType.BF16]
    return {str(storage_type(dtype)): dtype for dtype in own} | {"bfloat16": DataType.BF16}


class ByTypes:
    """Runner of a kernel or a pipeline with type variables, as `InPlace` is of one without: by the types of a call's arrays.

    `at(types)`: what runs it for types.
    """

    def __init__(self, of: Generic, at: Callable[[Sequence[Any]], InPlace]) -> None:
        self._of, self._at = of, at
        self._names = [name for variable in of.variables for name in variable.arrays]
        self._positions = [of.parameters.index(name) for name in self._names]
        self._known: dict[Any, InPlace] = {}
        """Runners by the types of arrays as their library has them."""

    def __call__(self, args: Sequence[Any], grid: Any) -> None:
        self._for(args)(args, grid)

    def report(
        self, args: Sequence[Any], grid: Any, machine: str | None = None, is_timed: bool = False
    ) -> CallReport:
        """See `InPlace.report`."""
        return self._for(args).report(args, grid, machine, is_timed)

    def _for(self, args: Sequence[Any]) -> InPlace:
        try:
            return self._known[tuple([args[position].dtype for position in self._positions])]
        except (KeyError, AttributeError, TypeError):  # not met yet, or of no type that is a key
            pass
        arrays = [args[position] for position in self._positions]
        run = self._at(types_of_call(self._of, dict(zip(self._names, arrays, strict=True))))
        dtypes = tuple(getattr(array, "dtype", None) for array in arrays)
        if None not in dtypes:
            self._known[dtypes] = run
        return run
