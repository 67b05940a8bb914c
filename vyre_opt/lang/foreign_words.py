"""Names of other languages and libraries in kernels of Python, and what to write: the rows of `syntax/synonyms.py`, as Python."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable
from typing import Any

from ..ir.ops import AXES, OPS
from ..ir.suggestions import suggest
from ..ir.types import DataType
from ..worker import import_module
from .intrinsics import INTRINSICS, Intrinsic
from .python_source import Unsupported
from .scalars import python_type, scalar_type

__all__ = [
    "dotted_name",
    "foreign_help",
    "foreign_index",
    "in_python",
    "no_attribute",
    "outside_help",
    "type_meant",
    "undefined",
]

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip

_FORMS: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"len (\w+)", r"len(\1)"),
    (r"(\w+) ([xyz])", lambda m: f"vyre.{m[1]}({AXES.index(m[2])})"),
    (r"load (\w+)\[(\w+)\] : vec<(\d+) x .*", r"\1.vec(\3)[\2]"),
    (r"store (\w+), (\w+)\[(\w+)\] : vec<(\d+) x .*", r"\2.vec(\4)[\3] = \1"),
    (r"load (\w+)\[(\w+)\].*", r"\1[\2]"),
    (r"store (\w+), (\w+)\[(\w+)\].*", r"\2[\3] = \1"),
    (r"r = const \S+ : (\w+)", r"\1"),  # a word that begins a declaration elsewhere
    (r"const (\S+) : (\w+)", r"\2(\1)"),
    (r"div (\w+), (\w+) : u32", r"\1 // \2"),
    (r"vec<(\d+) x f32>", r"x.vec(\1)[i]"),
    (r"cast (\w+) : .* -> (\w+)", r"\2(\1)"),
    (r"bitcast (\w+) : .* -> (\w+)", r"vyre.bitcast(\1, \2)"),
    (r"buffer (\w+) : (\w+)\[(\w+)\] workgroup", r"\1 = vyre.shared(\2, \3)"),
    (r"buffer (\w+) : (\w+)\[.*\] read .*", r"\1: Read[\2]"),
    (r"barrier workgroup", "vyre.barrier()"),
    (r"barrier (\w+)", r'vyre.barrier("\1")'),
    (r"extract (\w+)\[0\].*", r"\1[0]"),
    (r"insert (\w+), (\w+)\[0\].*", r"\2[0] = \1"),
    (r"splat (\w+) : vec<(\d+) x .*", r"vyre.splat(\1, \2)"),
    (r"call (\w+)\((.*?)\).*", r"\1(\2)"),
    (r"neg (\w+).*", r"-\1"),
    (r"not (\w+).*", r"not \1"),
    (r"(min|max) (\w+), (\w+).*", r"\1(\2, \3)"),
    (r"trap (\".*\")", r"vyre.trap(\1)"),
    (r"debug_print .*", 'print(f"i={i}")'),
    (r"assert (\w+), (\".*\")", r"assert \1, \2"),
    (r"yield (\w+)", r"return \1"),
    (r"if (\w+)\b.*", r"if \1:"),
    (r"else .*", "elif p:"),
    (r"for .*", "for k in range(256):"),
    (r"while .*", "while p:"),
    (r"condition", "while p:"),
    (r"program .*", "@vyre.program"),
    (r"func .*", "@vyre.func"),
    (r"pipeline .*", "@vyre.pipeline"),
    (r"launch .*", "kernel[grid](x, y)"),
]
"""Spelling in a text, without its sigils, and spelling in Python."""


def dotted_name(node: ast.AST) -> str:
    """The text of `tl.load` or `sum`; "" for what is no name with dots."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def foreign_help(name: str) -> str | None:
    """Remedy for a name of another language or library, with all its dots: `tl.program_id`, `np.maximum`; None for one
    that no table has."""
    import_module("vyre_opt.syntax.synonyms")
    from ..syntax.synonyms import lookup  # a large table, which only errors need

    words = name.split(".")
    tails = [".".join(words[start:]) for start in range(len(words))]
    for tail in tails:
        row = lookup(tail, ("python",))
        if row is not None:
            return f"write {row.here}" + (f"; {row.note}" if row.note else "")
    if words[-1] in INTRINSICS:
        return f"write vyre.{words[-1]}"
    for tail in tails:
        row = lookup(tail, ("op", "type", "item"))
        here = None if row is None else in_python(row.here)
        if here is not None:
            return f"write {here}"
    return None


def foreign_index(node: ast.BinOp) -> str | None:
    """`vyre.global_id(0)` for `blockIdx.x * blockDim.x + threadIdx.x` and its like; None for any other sum."""
    for product, lane in ((node.left, node.right), (node.right, node.left)):
        if (
            not isinstance(node.op, ast.Add)
            or not isinstance(product, ast.BinOp)
            or not isinstance(product.op, ast.Mult)
        ):
            continue
        names = [
            dotted_name(each.func if isinstance(each, ast.Call) else each)
            for each in (product.left, product.right, lane)
        ]
        words = [foreign_help(name) or "" if name else "" for name in names]
        if not isinstance(lane, ast.Call) and "." in names[-1]:
            ids = re.fullmatch(r"write vyre\.local_id\((\d)\)", words[-1])
            if ids is not None and sorted(words[:2]) == [
                f"write vyre.{name}({ids[1]})" for name in ("workgroup_id", "workgroup_size")
            ]:
                return f"vyre.global_id({ids[1]})"
    return None


def type_meant(value: object) -> str | None:
    """The name of the type that `f32`, `np.float32` or `float` would be in a kernel; None for what is no type."""
    if scalar_type(value) is not None or not isinstance(value, type):
        return getattr(value, "__name__", None) if isinstance(value, type) else None
    import_module("vyre_opt.syntax.synonyms")
    from ..syntax.synonyms import lookup

    row = lookup(value.__name__, ("type",))
    return None if row is None else in_python(row.here)


def outside_help(name: str) -> str:
    """Remedy for an attribute that the package does not have, outside of kernels."""
    kernels = import_module("vyre_opt.kernels")
    if name in getattr(kernels, "__all__", ()):
        return f"write vyre_opt.kernels.{name}(...)"
    return foreign_help(name) or "dir(vyre_opt) has all names, and docs/python.md says what they are for"


_OF_KERNELS = (
    "abs",
    "all",
    "any",
    "bool",
    "enumerate",
    "float",
    "int",
    "len",
    "max",
    "min",
    "pow",
    "print",
    "range",
    "round",
    "sum",
    "zip",
)
"""Functions of Python that kernels have, or that have a remedy of their own."""


def undefined(node: ast.AST, name: str, known: Iterable[str]) -> Unsupported:
    """The error for a name, perhaps with dots, whose first part nothing defines; `known`: names that are defined."""
    root, dot, _ = name.partition(".")
    help = (
        "import vyre_opt as vyre, at the top of the file"
        if root in ("vyre", "vyre_opt") and dot
        else foreign_help(name)
    )
    if help is None:
        own = [n for n in known if not n.startswith("_") and (n in _OF_KERNELS or not hasattr(builtins, n))]
        help = suggest(root, own)
        help = help or "assign it before, take it as an argument, or define it outside"
        return Unsupported(node, f"{root} is not defined", help)
    return Unsupported(node, f"{name} is not defined", help)


def no_attribute(node: ast.Attribute, owner: Any, error: AttributeError) -> Unsupported:
    """The error for an attribute that an object of Python, such as a module, does not have."""
    known = [name for name in dir(owner) if not name.startswith("_")]
    if isinstance(owner, Intrinsic):
        text = dotted_name(node.value)
        if node.attr in AXES and owner.arguments.startswith("axis"):
            return Unsupported(
                node, f"{text} is called with its axis", f"write {text}({AXES.index(node.attr)})"
            )
        return Unsupported(
            node, f"{text} is a function, and has no {node.attr}", f"call it: it is {text}({owner.arguments})"
        )
    return Unsupported(node, str(error), foreign_help(node.attr) or suggest(node.attr, known))


def in_python(here: str) -> str | None:
    """The Python for the text of a row: `vyre.fma(a, b, c)` for `fma %a, %b, %c : f32`; None where Python has no word for it."""
    text = re.sub(r"[%@]", "", here.removesuffix(" {"))
    for pattern, form in _FORMS:
        match = re.fullmatch(pattern, text)
        if match is not None:
            return form(match) if callable(form) else match.expand(form)
    if text in DataType.all_names():
        return text if python_type(DataType.of(text)) is not None or text == "bool" else None
    return _op(text.removeprefix("r = "))


def _op(text: str) -> str | None:
    """An op in its short form: `add a, b : f32`, `subgroup_scan<inclusive, add> a : f32`."""
    head, _, _ = text.partition(" : ")
    match = re.fullmatch(r"(\w+)(?:<([\w, ]+)>)?(?: (.+))?", head)
    if match is None or match[1] not in OPS:
        return None
    name = match[1]
    operands = [part for part in re.split(r", |[\[\]]", match[3] or "") if part]  # `n[i]` is two
    modifiers = [word for word in (match[2] or "").split(", ") if word not in ("", "relaxed")]
    if name in _SIGNS:
        return f" {_SIGNS[name]} ".join(operands or ["a", "b"])
    if name not in INTRINSICS:
        return None
    arguments = ", ".join([*operands, *(f'"{word}"' for word in modifiers)])
    return f"vyre.{name}({arguments})"
