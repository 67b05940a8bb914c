"""How an op without blocks is printed, by its form, and the words that all texts are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .literals import show
from .program import Op, Value
from .types import DataType

if TYPE_CHECKING:
    from .printer import Printer

__all__ = ["SIMPLE_FORMS", "generic_attrs", "kernel_text", "quote", "symbol_list", "type_list", "types_text"]


def types_text(types: tuple[DataType, ...]) -> str:
    """In parentheses, but for a single one."""
    return types[0].name if len(types) == 1 else f"({', '.join(t.name for t in types)})"


def type_list(values: tuple[Value, ...]) -> str:
    """The types of values."""
    return ", ".join([v.type.name for v in values])


def symbol_list(names: tuple[str, ...]) -> str:
    return ", ".join(f"@{name}" for name in names)


def kernel_text(p: Printer, name: str, buffers: tuple[str, ...], params: dict[str, Any]) -> str:
    """A named kernel, as an op or as a stage."""
    given = ", ".join(f"{key} = {value}" for key, value in p.given(params))
    return f"{name}({symbol_list(buffers)})" + (f" {{{given}}}" if given else "")


def _elementwise(p: Printer, op: Op) -> str:
    names = p.names
    operands = op.operands
    flags = op.attrs.get("fastmath", ())
    fast = f" fastmath<{', '.join(sorted(flags) if p.numbered else flags)}>" if flags else ""
    return f"{op.definition.name} {', '.join([names[v] for v in operands])}{fast} : {operands[-1].type.name}"


def _words(op: Op) -> str:
    given = [op.attrs[a.name] for a in op.definition.attrs if a.kind == "word"]
    return f"{op.name}<{', '.join(given)}>"


def _result_typed(p: Printer, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)} : {op.results[0].type}"


def _atomic(p: Printer, op: Op) -> str:
    index, *values = op.operands
    given = p.uses(tuple(values))
    return f"{_words(op)} @{op.attrs['buffer']}[{p.names[index]}], {given} : {values[0].type}"


def _store(p: Printer, op: Op) -> str:
    value, index = op.operands
    return f"store {p.names[value]}, @{op.attrs['buffer']}[{p.names[index]}] : {value.type}"


def _call(p: Printer, op: Op) -> str:
    text = f"call @{op.attrs['callee']}({p.uses(op.operands)})"
    if not op.results:
        return text
    return f"{text} : ({type_list(op.operands)}) -> {types_text(tuple(v.type for v in op.results))}"


def _terminator(p: Printer, op: Op) -> str:
    return f"{op.name} {p.uses(op.operands)}" if op.operands else op.name


def quote(text: str) -> str:
    """`text` as a string token."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


SIMPLE_FORMS: dict[str, Callable[[Printer, Op], str]] = {
    **dict.fromkeys(("unary", "binary", "ternary", "compare", "select"), _elementwise),
    **dict.fromkeys(("splat", "vector"), _result_typed),
    "const": lambda p, op: f"const {show(op.attrs['value'], op.results[0].type)} : {op.results[0].type}",
    "spec": lambda p, op: f"spec @{op.attrs['spec']} : {op.results[0].type}",
    "id": lambda p, op: f"{op.name} {op.attrs['axis']}",
    "size": lambda p, op: op.name,
    "len": lambda p, op: (
        f"len @{op.attrs['buffer']}"
        + ("" if op.results[0].type is DataType.U32 else f" : {op.results[0].type}")
    ),
    "convert": lambda p, op: (
        f"{op.name} {p.uses(op.operands)} : {op.operands[0].type} -> {op.results[0].type}"
    ),
    "extract": lambda p, op: f"extract {p.uses(op.operands)}[{op.attrs['index']}] : {op.operands[0].type}",
    "insert": lambda p, op: f"insert {p.uses(op.operands)}[{op.attrs['index']}] : {op.operands[1].type}",
    "load": lambda p, op: f"load @{op.attrs['buffer']}[{p.uses(op.operands)}] : {op.results[0].type}",
    "store": _store,
    "atomic": _atomic,
    "barrier": lambda p, op: f"barrier {op.attrs['scope']}",
    **dict.fromkeys(
        ("shuffle", "reduce", "scan"),
        lambda p, op: f"{_words(op)} {p.uses(op.operands)} : {op.results[0].type}",
    ),
    "ballot": lambda p, op: f"{op.name} {p.uses(op.operands)}",
    "call": _call,
    "trap": lambda p, op: f"trap {quote(op.attrs['message'])}",
    "kernel": lambda p, op: kernel_text(p, op.name, op.attrs["buffers"], op.attrs["params"]),
    **dict.fromkeys(("yield", "condition"), _terminator),
}


def generic_attrs(op: Op) -> str:
    """The attributes of an op in the generic form, with a space before them."""
    if op.definition.kernel is not None:
        given = [f"buffers = [{symbol_list(op.attrs['buffers'])}]"] if op.attrs["buffers"] else []
        given += [f"{key} = {value}" for key, value in op.attrs["params"].items()]
        return f" {{{', '.join(given)}}}" if given else ""
    shown = []
    for attr in op.definition.attrs:
        value = op.attrs[attr.name]
        if attr.kind == "literal":
            text = show(value, op.results[0].type)
        elif attr.kind == "symbol":
            text = f"@{value}"
        elif attr.kind == "string":
            text = quote(value)
        else:
            text = "dynamic" if value is None else str(value)
        shown.append(f"{attr.name} = {text}")
    if "fastmath" in op.attrs:
        shown.append(f"fastmath = [{', '.join(op.attrs['fastmath'])}]")
    return f" {{{', '.join(shown)}}}" if shown else ""
