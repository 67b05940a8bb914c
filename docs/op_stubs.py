"""Stubs of what is made at run time, for editors and type checkers:  python docs/op_stubs.py

vyre_opt/__init__.pyi        what the package loads when it is asked for
vyre_opt/ir/op_methods.pyi   the Builder's method of each op
vyre_opt/lang/ops.pyi        what kernels in Python call
vyre_opt/kernels/__init__.pyi   the kernels as functions on arrays
vyre_opt/ir/__init__.pyi     the public names that a package shows, and so for other packages (faces.py)
"""

from __future__ import annotations

import functools
import inspect
import keyword
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import vyre_opt
import vyre_opt.kernels
from vyre_opt.ir.op_builders import BUILDERS
from vyre_opt.ir.ops import OPS, OpDef
from vyre_opt.ir.types import DataType
from vyre_opt.lang.intrinsics import INTRINSICS, Intrinsic, namespaces

__all__ = ["STUBS", "lang_stub", "methods_stub", "package_stub"]

_OPERANDS = {"unary": 1, "compare": 2, "ternary": 3}


# --- the Builder's methods


def methods_stub() -> str:
    """A method for each op of the table that has one."""
    lines = [
        '"""The builder\'s methods of ops.  Made by `python docs/op_stubs.py` from the op table."""\n',
        "from collections.abc import Sequence\nfrom typing import Literal\n",
        "from .value_operators import BuiltValue, Operand\n"
        "from .program import Buffer, Value\nfrom .types import DataType\n",
        '__all__ = ["OpMethods"]\n',
        "class OpMethods:",
    ]
    for row in OPS.values():
        if row.format in BUILDERS:
            name = f"{row.name}_" if keyword.iskeyword(row.name) else row.name
            arguments = ", ".join(["self", *_method_arguments(row), "name: str | None = None"])
            lines += [f"    def {name}({arguments}) -> BuiltValue:", f"        {_doc(row.doc)}"]
    return "\n".join(lines) + "\n"


def _method_arguments(row: OpDef) -> Iterator[str]:
    build = BUILDERS[row.format]
    is_keyword_only = False
    for parameter in list(inspect.signature(build).parameters.values())[2:]:
        annotation = _literal(row, parameter.name) or parameter.annotation
        if parameter.name == "fastmath" and row.types not in ("float", "num"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL and row.format != "vector":
            yield from (f"{name}: {annotation}" for name in _operands(row))
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            is_keyword_only = True
            yield "*"
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is parameter.empty else f" = {_shown(parameter.default)}"
        yield f"{star}{parameter.name}: {annotation}{default}"
    if not is_keyword_only and row.format != "vector":
        yield "*"


def _operands(row: OpDef) -> list[str]:
    """The names of operands that the builder's method takes as `*operands`."""
    if row.format == "atomic":
        return ["expected", "value"] if row.name.endswith("compare_exchange") else ["value"]
    return list("abc"[: _OPERANDS.get(row.format, 2)])


def _literal(row: OpDef, name: str) -> str | None:
    choices = next((attr.choices for attr in row.attrs if attr.name == name), None)
    return f"Literal[{', '.join(map(_quoted, choices))}] | str" if choices else None


# --- what kernels call


def lang_stub() -> str:
    """A function for each op that kernels call, and a namespace for each family of named kernels."""
    lines = [
        '"""What kernels call by name.  Made by `python docs/op_stubs.py` from the op table."""\n',
        "from collections.abc import Sequence\nfrom typing import Any, Literal\n",
        "__all__ = [",
        *(f"    {_quoted(name)}," for name in [*INTRINSICS, *namespaces()]),
        "]\n",
    ]
    for name, intrinsic in INTRINSICS.items():
        lines += _function(name, intrinsic, "")
    for name, space in namespaces().items():
        lines += [f"class _{name}:", f'    """The kernels {name}.*, which pipelines launch."""\n']
        for kernel in dir(space):
            lines += ["    @staticmethod", *_function(kernel, getattr(space, kernel), "    ")]
        lines.append(f"{name}: type[_{name}]")
    return "\n".join(lines) + "\n"


def _function(name: str, intrinsic: Intrinsic, indent: str) -> list[str]:
    row = OPS.get(name.removesuffix("_"))
    arguments = []
    is_keyword_only = False
    for parameter in inspect.signature(intrinsic).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            is_keyword_only = True
            arguments.append("*")
        annotation = _annotation(parameter.name, row)
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is parameter.empty else f" = {_shown(parameter.default)}"
        arguments.append(f"{star}{parameter.name}: {annotation}{default}")
    result = "None" if row is not None and row.format in ("barrier", "trap", "debug_print") else "Any"
    head = f"{indent}def {name}({', '.join(arguments)}) -> {result}:"
    return [head, f"{indent}    {_doc(intrinsic.__doc__ or '')}"]


def _annotation(name: str, row: OpDef | None) -> str:
    if name == "keepdims":
        return "bool"
    if name == "axis" and row is not None and row.format == "id":
        return 'Literal[0, 1, 2, "x", "y", "z"]'
    if name == "axis":  # of a slice
        return "int | None"
    if name == "fastmath":
        return "str | Sequence[str]"
    return (_literal(row, name) if row is not None else None) or "Any"


# --- the package


def package_stub() -> str:
    """Every name of the package, from where it is."""
    lines = ['"""The names of the package.  Made by `python docs/op_stubs.py`."""\n']
    packages = [*vars(vyre_opt)["_PACKAGES"], *vars(vyre_opt)["_FACES"]]
    lines += [f"from . import {package} as {package}" for package in packages]
    modules = {name: f".{module}" for name, module in vars(vyre_opt)["_EXPORTS"].items()}
    modules |= vars(vyre_opt)["_NEIGHBOURS"]
    lines += [f"from {module} import {name} as {name}" for name, module in modules.items()]
    of_ops = [
        n for n in (*INTRINSICS, *namespaces()) if getattr(vyre_opt, n) is getattr(vyre_opt.lang.ops, n)
    ]
    lines += [f"from .lang import {name} as {name}" for name in vyre_opt.lang.__all__ if name not in of_ops]
    lines += [f"from .lang.ops import {name} as {name}" for name in of_ops]
    return "\n".join([*lines, "\n__version__: str"]) + "\n"


def face_stub(package: str) -> str:
    """The public names that a package shows, from where they are."""
    exports = vars(vyre_opt)["_EXPORTS"]
    lines = [f'"""The public names of {package}.  Made by `python docs/op_stubs.py`."""\n']
    for name in dir(getattr(vyre_opt, package)):
        own, _, module = exports[name].partition(".")
        lines.append(f"from {'.' if own == package else f'..{own}.'}{module} import {name} as {name}")
    return "\n".join(lines) + "\n"


# --- kernels as functions on arrays

_FROM_ARRAY = {
    "Like[A]": ("NDArray[Any]", "NDArray[Any]"),
    "Octets[A]": ("str | bytes | NDArray[Any]", "NDArray[np.uint8]"),
    "Words[A]": ("Sequence[int] | NDArray[Any]", "NDArray[np.uint32]"),
}
"""By what a function of an array A returns: what NumPy's A may be, and what is returned for it."""


def kernels_stub() -> str:
    """Every function, from where it is; one whose result has another shape or type than its array is overloaded for NumPy."""
    lines = [
        '"""The kernels as functions on arrays.  Made by `python docs/op_stubs.py` from their docstrings."""\n',
        "from collections.abc import Sequence\nfrom typing import Any, TypeVar, overload\n",
        "import numpy as np\nfrom numpy.typing import NDArray\n",
        "from ..execution.dispatcher import DispatcherLike",
    ]
    overloaded: list[str] = []
    for name, module in vars(vyre_opt.kernels)["_EXPORTS"].items():
        function = getattr(vyre_opt.kernels, name)
        returned = getattr(function, "__annotations__", {}).get("return")
        if isinstance(function, type) or returned not in _FROM_ARRAY:
            place = module if "." in module else f"..driver.{module}"
            lines.append(f"from {place} import {name} as {name}")
            continue
        signature = inspect.signature(function)
        given, result = _FROM_ARRAY[returned]
        for_numpy = _as_text(signature, functools.partial(re.sub, r"\bA\b", given))
        overloaded += [
            "@overload",
            f"def {name}{for_numpy} -> {result}:",
            f"    {_doc(function.__doc__ or '')}",
        ]
        overloaded += ["@overload", f"def {name}{_as_text(signature, str)} -> A: ..."]
    return "\n".join([*lines, '\nA = TypeVar("A")\n', *overloaded]) + "\n"


class _Annotation(str):
    """An annotation that is text, as a signature shows one that is none."""

    def __repr__(self) -> str:
        return str(self)


def _as_text(signature: inspect.Signature, change: Callable[[str], str]) -> str:
    """The parameters of a signature whose annotations are text, after a change of these."""
    parameters = [
        p.replace(annotation=_Annotation(change(p.annotation))) for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


# --- text


def _quoted(word: str) -> str:
    return f'"{word}"'


def _shown(value: object) -> str:
    if isinstance(value, DataType):
        return f"DataType.{value.name.upper()}"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _doc(text: str) -> str:
    return f'"""{text}"""'


STUBS: dict[str, Callable[[], str]] = {
    "vyre_opt/__init__.pyi": package_stub,
    "vyre_opt/ir/op_methods.pyi": methods_stub,
    "vyre_opt/lang/ops.pyi": lang_stub,
    "vyre_opt/kernels/__init__.pyi": kernels_stub,
    **{
        f"vyre_opt/{package}/__init__.pyi": functools.partial(face_stub, package)
        for package in vars(vyre_opt)["_FACES"]
    },
}


if __name__ == "__main__":
    for path, stub in STUBS.items():
        (Path(__file__).parents[1] / path).write_text(stub(), encoding="utf-8")
