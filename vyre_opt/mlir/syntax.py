"""MLIR text to xdsl's IR, with the place of every op; and the syntax of ops that xdsl knows in the generic form only.

xdsl parses MLIR, and its dialects arith, scf, memref, math, vector and func as people write them.  Its ops of the gpu
dialect, and a few others, have no such syntax, so they are defined here: by name, and a function that parses what comes
behind it.  Nothing is checked that the reader of ops checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ..ir.diagnostics import Diagnostic, DiagnosticError, Location, Source

if TYPE_CHECKING:
    from xdsl.ir import Operation

__all__ = ["ATOMIC_NUMBERS", "HINTS", "PREDICATES", "WRONG", "ParsedModule", "parse_mlir"]

WRONG = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""Exceptions of Python for an op with other parts than its name says: the generic form takes any for any op."""

Parse = Callable[[Any, Any], Any]
"""(class of the op, parser) -> the op."""


class ParsedModule:
    """`op`: builtin.module.  `places`: where ops are in the source; `begun`: where the last one begins."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.op: Any = None
        self.places: dict[Any, tuple[int, int]] = {}
        self.begun = 0

    def location(self, op: Operation) -> Location:
        """The place of an op, without its regions."""
        start, end = self.places.get(op, (0, 0))
        newline = self.source.text.find("\n", start, end)
        return Location(self.source, start, end if newline < 0 else newline)


def parse_mlir(source: Source) -> ParsedModule:
    """The module of a text.  Raises DiagnosticError for what does not parse, and where xdsl is missing."""
    try:
        from xdsl.parser import Parser
        from xdsl.utils.exceptions import ParseError, VerifyException
        from xdsl.utils.mlir_lexer import MLIRTokenKind
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "xdsl":
            raise
        raise _located(
            source,
            0,
            1,
            "reading MLIR needs the package xdsl",
            "install it with: pip install 'vyre-opt[mlir]'",
        ) from None

    parsed = ParsedModule(source)
    _check_strings(source)

    class LocatedParser(Parser):
        """Keeps where each op begins and ends."""

        def parse_operation(self) -> Operation:
            start = parsed.begun = self.pos
            operation = super().parse_operation()
            text = source.text[start : self.pos].rstrip()
            parsed.places[operation] = (start, start + len(text))
            return operation

        def parse_optional_location(self) -> None:
            """Passes over `loc(...)`: what is said of an op is located in the MLIR itself, and places may be aliases."""
            if self.parse_optional_keyword("loc") is None:
                return
            self.parse_punctuation("(")
            depth = 1
            while depth:
                token = self._consume_token()
                depth += (token.text == "(") - (token.text == ")")
                if token.kind is MLIRTokenKind.EOF:
                    self.raise_error("a loc( that does not end")

    try:
        parsed.op = LocatedParser(_context(), _ALIAS.sub(_blank, source.text), source.name).parse_module()
    except ParseError as error:
        unknown = _UNKNOWN.match(source.text, parsed.begun)
        if unknown and any(words in error.msg for words in ("unregistered", "not registered")):
            raise _not_read(source, unknown) from None
        raise _located(source, error.span.start, error.span.end, error.msg) from None
    except (VerifyException, *WRONG, AssertionError, MemoryError) as error:
        # what an op's own parser or constructor says of attributes that do not fit has no place
        last = max((end for _, end in parsed.places.values()), default=0)
        what = str(error).partition("\n")[0] or type(error).__name__
        raise _located(source, last, last + 1, f"the op behind this place does not parse: {what}") from None
    except RecursionError:
        raise _located(source, 0, 1, "regions, types or attributes nest too deeply") from None
    return parsed


def _located(source: Source, start: int, end: int, message: str, help: str | None = None) -> DiagnosticError:
    size = len(source.text)
    start = min(start, max(size - 1, 0))
    text = " ".join(message.split())
    return DiagnosticError(
        [Diagnostic("error", text, Location(source, start, max(end, start + 1)), help=help)]
    )


_STRING = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|(?P<open>")')


def _check_strings(source: Source) -> None:
    """Raises DiagnosticError for a string without an end, in which xdsl's lexer looks for it by exponentially many ways."""
    for match in _STRING.finditer(source.text):
        if match["open"]:
            raise _located(source, match.start(), match.end(), "a string that does not end on its line")


_ALIAS = re.compile(r"^#loc\w* = loc\(.*\)$", re.MULTILINE)
"""The definition of a location alias, which xdsl would read as an attribute alias."""


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


_UNKNOWN = re.compile(r'(?:%[\w$.:, %#-]+=\s*)?"?(?P<name>[A-Za-z_][\w$.]*)')
"""The name of an op, behind its results."""


def _not_read(source: Source, unknown: re.Match[str]) -> DiagnosticError:
    """An op whose syntax nobody knows."""
    name = unknown["name"]
    help = HINTS.get(name) or HINTS.get(name.partition(".")[0])
    return _located(source, *unknown.span("name"), f"{name} is not an op that this reads", help)


HINTS = {
    "gpu.launch": "outline the kernel first: mlir-opt --gpu-kernel-outlining",
    "affine": "lower it first: mlir-opt --lower-affine",
    "linalg": "lower it to loops first: mlir-opt --convert-linalg-to-loops",
    "scf.parallel": "map it to a launch first: mlir-opt --convert-parallel-loops-to-gpu --gpu-kernel-outlining",
    "scf.forall": "lower it to loops first: mlir-opt --scf-forall-to-for",
    "cf": "make it structured first: mlir-opt --lift-cf-to-scf",
    "index": "write index arithmetic in the arith dialect",
}
"""Remedies for an op, or for all ops of a dialect."""


# --- the syntax of single ops


def _create(cls: Any, **parts: Any) -> Any:
    return cls.create(**parts)


def _attributes(parser: Any) -> dict[str, Any]:
    return dict(parser.parse_optional_attr_dict())


def _dimension(cls: Any, parser: Any) -> Any:
    """`x|y|z attr-dict`, of an index."""
    from xdsl.dialects.builtin import IndexType, StringAttr

    axis = parser.parse_identifier()
    _upper_bound(parser)
    attributes = {"dimension": StringAttr(axis), **_attributes(parser)}
    return _create(cls, result_types=[IndexType()], attributes=attributes)


def _upper_bound(parser: Any) -> None:
    if parser.parse_optional_keyword("upper_bound") is not None:
        parser.parse_integer()


def _index(cls: Any, parser: Any) -> Any:
    """`attr-dict [: index]`, of an index."""
    from xdsl.dialects.builtin import IndexType

    _upper_bound(parser)
    attributes = _attributes(parser)
    if parser.parse_optional_punctuation(":") is not None:
        parser.parse_type()
    return _create(cls, result_types=[IndexType()], attributes=attributes)


def _bare(cls: Any, parser: Any) -> Any:
    return _create(cls, attributes=_attributes(parser))


def _operands_and_types(cls: Any, parser: Any) -> Any:
    """`%a, %b attr-dict [: types]`, of nothing."""
    operands = (
        parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        or []
    )
    attributes = _attributes(parser)
    types = []
    if parser.parse_optional_punctuation(":") is not None:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return _create(cls, operands=parser.resolve_operands(operands, types, parser.pos), attributes=attributes)


def _cast(cls: Any, parser: Any) -> Any:
    """`%a attr-dict : source to target`."""
    return _converted(cls, parser, lambda: parser.parse_keyword("to"))


def _arrow(cls: Any, parser: Any) -> Any:
    """`%a attr-dict : type -> type`."""
    return _converted(cls, parser, lambda: parser.parse_punctuation("->"))


def _converted(cls: Any, parser: Any, between: Callable[[], Any]) -> Any:
    value = parser.parse_unresolved_operand()
    attributes = _attributes(parser)
    parser.parse_punctuation(":")
    source = parser.parse_type()
    between()
    target = parser.parse_type()
    operand = parser.resolve_operand(value, source)
    return _create(cls, operands=[operand], result_types=[target], attributes=attributes)


CAST_OPS = (
    "index_cast", "index_castui", "extui", "extsi", "trunci", "extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui",
    "bitcast",
)  # fmt: skip
"""Casts, defined here for vectors: those of xdsl take scalars only."""


def _function_form(cls: Any, parser: Any) -> Any:
    """`(%a, %b) attr-dict : (types) -> types`."""
    values = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
    attributes = _attributes(parser)
    parser.parse_punctuation(":")
    kind = parser.parse_function_type()
    operands = parser.resolve_operands(values, kind.inputs.data, parser.pos)
    return _create(cls, operands=operands, result_types=kind.outputs.data, attributes=attributes)


def _module(cls: Any, parser: Any) -> Any:
    """`@name [targets] attributes {...} { ... }`."""
    from xdsl.dialects.builtin import UnitAttr
    from xdsl.ir import Block

    attributes: dict[str, Any] = {"sym_name": parser.parse_symbol_name()}
    if parser.parse_optional_punctuation("<") is not None:  # an offloading handler
        parser.parse_attribute()
        parser.parse_punctuation(">")
    targets = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_attribute)
    if targets is not None:
        attributes["targets"] = UnitAttr()
    more = parser.parse_optional_attr_dict_with_keyword()
    attributes.update(more.data if more is not None else {})
    region = parser.parse_region()
    if not region.blocks:
        region.add_block(Block())
    return _create(cls, regions=[region], attributes=attributes)


def _function(cls: Any, parser: Any) -> Any:
    """`@name(%a: type {...}, ...) -> types workgroup(%t : type) private(...) kernel attributes {...} { ... }`."""
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IntegerAttr, UnitAttr, i64

    attributes: dict[str, Any] = {"sym_name": parser.parse_symbol_name()}

    def argument() -> tuple[Any, Any]:
        parsed = parser.parse_argument()
        attrs_of_one = parser.parse_optional_dictionary_attr_dict()
        parser.parse_optional_location()
        return parsed, DictionaryAttr(attrs_of_one)

    def typed() -> tuple[Any, Any]:
        return parser.parse_type(), DictionaryAttr(parser.parse_optional_dictionary_attr_dict())

    arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
    results: list[tuple[Any, Any]] = []
    if parser.parse_optional_punctuation("->") is not None:
        parsed = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, typed)
        results = [typed()] if parsed is None else parsed
    memory: dict[str, list[tuple[Any, Any]]] = {"workgroup": [], "private": []}
    for word, attributions in memory.items():
        if parser.parse_optional_keyword(word) is not None:
            attributions += parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
    if parser.parse_optional_keyword("kernel") is not None:
        attributes["kernel"] = UnitAttr()
    more = parser.parse_optional_attr_dict_with_keyword()
    attributes.update(more.data if more is not None else {})
    attributes |= {
        "function_type": FunctionType.from_lists([a.type for a, _ in arguments], [t for t, _ in results]),
        "arg_attrs": ArrayAttr([attrs_of_one for _, attrs_of_one in arguments]),
        "res_attrs": ArrayAttr([attrs_of_one for _, attrs_of_one in results]),
        "workgroup_attributions": IntegerAttr(len(memory["workgroup"]), i64),
        "private_attributions": IntegerAttr(len(memory["private"]), i64),
    }
    entry = [a for a, _ in (*arguments, *memory["workgroup"], *memory["private"])]
    return _create(cls, regions=[parser.parse_region(entry)], attributes=attributes)


def _launch(cls: Any, parser: Any) -> Any:
    """`@m::@k blocks in (%x, %y, %z) threads in (%x, %y, %z) args(%a : type)`; operands: the six sizes, all else is dropped."""
    from xdsl.dialects.builtin import IndexType

    if parser.parse_optional_keyword("async") is not None:
        parser.raise_error("an asynchronous launch is not read; write it without async")
    kernel = parser.parse_attribute()
    sizes: list[Any] = []
    for word in ("clusters", "blocks", "threads"):
        if parser.parse_optional_keyword(word) is None:
            continue
        parser.parse_keyword("in")
        names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        sizes += names if word != "clusters" else []
    kind = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else IndexType()
    if parser.parse_optional_keyword("dynamic_shared_memory_size") is not None:
        parser.parse_unresolved_operand()

    def passed() -> None:
        parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        parser.parse_type()

    if parser.parse_optional_keyword("args") is not None:
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, passed)
    attributes = {"kernel": kernel, **_attributes(parser)}
    operands = [parser.resolve_operand(name, kind) for name in sizes]
    return _create(cls, operands=operands, attributes=attributes)


def _shuffle(cls: Any, parser: Any) -> Any:
    """`xor %value, %offset, %width : type`, of the value and whether its lane exists."""
    from xdsl.dialects.builtin import StringAttr, i1, i32

    mode = parser.parse_identifier()
    value, offset, width = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    attributes = {"mode": StringAttr(mode), **_attributes(parser)}
    parser.parse_punctuation(":")
    kind = parser.parse_type()
    operands = parser.resolve_operands([value, offset, width], [kind, i32, i32], parser.pos)
    return _create(cls, operands=operands, result_types=[kind, i1], attributes=attributes)


def _reduce(cls: Any, parser: Any) -> Any:
    """`add %value uniform attr-dict : (type) -> type`."""
    from xdsl.dialects.builtin import StringAttr

    combine = parser.parse_optional_identifier()
    if combine is None:
        parser.raise_error("a reduction is read if it names an operation, add or the like")
    value = parser.parse_unresolved_operand()
    parser.parse_optional_keyword("uniform")
    attributes = {"op": StringAttr(combine), **_attributes(parser)}
    parser.parse_punctuation(":")
    kind = parser.parse_function_type()
    operands = parser.resolve_operands([value], kind.inputs.data, parser.pos)
    return _create(cls, operands=operands, result_types=kind.outputs.data, attributes=attributes)


ATOMIC_NUMBERS = (
    "addf", "addi", "assign", "maximumf", "maxs", "maxu", "minimumf", "mins", "minu", "mulf", "muli", "ori", "andi",
    "maxnumf", "minnumf",
)  # fmt: skip
"""The kinds of memref.atomic_rmw by the number that the generic form has for them."""


def _atomic(cls: Any, parser: Any) -> Any:
    """`addi %value, %memory[%i] attr-dict : (type, memref) -> type`."""
    from xdsl.dialects.builtin import IndexType, IntegerAttr, i64

    kind = parser.parse_identifier()
    if kind not in ATOMIC_NUMBERS:
        parser.raise_error(f"memref.atomic_rmw has no kind {kind}")
    value = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    memory = parser.parse_unresolved_operand()
    indices = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
    attributes = {"kind": IntegerAttr(ATOMIC_NUMBERS.index(kind), i64), **_attributes(parser)}
    parser.parse_punctuation(":")
    signature = parser.parse_function_type()
    types = [*signature.inputs.data, *[IndexType()] * len(indices)]
    operands = parser.resolve_operands([value, memory, *indices], types, parser.pos)
    return _create(cls, operands=operands, result_types=signature.outputs.data, attributes=attributes)


def _generic_atomic(cls: Any, parser: Any) -> Any:
    """`%memory[%i] : memref { ^bb0(%old: type): ... }`."""
    from xdsl.dialects.builtin import IndexType

    memory = parser.parse_unresolved_operand()
    indices = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    kind = parser.parse_type()
    region = parser.parse_region()
    types = [kind, *[IndexType()] * len(indices)]
    operands = parser.resolve_operands([memory, *indices], types, parser.pos)
    return _create(
        cls,
        operands=operands,
        result_types=[getattr(kind, "element_type", kind)],
        regions=[region],
        attributes=_attributes(parser),
    )


def _one_operand(result: Callable[[Any], Any]) -> Parse:
    """`%a attr-dict : type`, of what `result` makes of the type."""

    def parse(cls: Any, parser: Any) -> Any:
        value = parser.parse_unresolved_operand()
        attributes = _attributes(parser)
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        operand = parser.resolve_operand(value, getattr(kind, "element_type", kind))
        return _create(cls, operands=[operand], result_types=[result(kind)], attributes=attributes)

    return parse


def _lane(cls: Any, parser: Any) -> Any:
    """`[%scalar,] %vector[%i : type] attr-dict : vector type`."""
    from xdsl.dialects.builtin import IndexType

    values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    parser.parse_punctuation("[")
    index = parser.parse_optional_unresolved_operand()
    index_type = IndexType()
    if index is not None:
        parser.parse_punctuation(":")
        index_type = parser.parse_type()
    parser.parse_punctuation("]")
    attributes = _attributes(parser)
    parser.parse_punctuation(":")
    kind = parser.parse_type()
    element = getattr(kind, "element_type", kind)
    types = [*[element] * (len(values) - 1), kind]
    operands = parser.resolve_operands(values, types, parser.pos)
    if index is not None:
        operands = [*operands, parser.resolve_operand(index, index_type)]
    return _create(
        cls, operands=operands, result_types=[kind if len(values) > 1 else element], attributes=attributes
    )


def _wait_group(cls: Any, parser: Any) -> Any:
    """`2 attr-dict`."""
    from xdsl.dialects.builtin import IntegerAttr, i32

    attributes = {"n": IntegerAttr(parser.parse_integer(), i32), **_attributes(parser)}
    return _create(cls, attributes=attributes)


def _nvvm_shuffle(cls: Any, parser: Any) -> Any:
    """`bfly %mask, %value, %lane, %clamp attr-dict : type -> type`."""
    from xdsl.dialects.builtin import StringAttr, i32

    kind = parser.parse_identifier()
    values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    attributes = {"kind": StringAttr(kind), **_attributes(parser)}
    parser.parse_punctuation(":")
    source = parser.parse_type()
    parser.parse_punctuation("->")
    target = parser.parse_type()
    operands = parser.resolve_operands(values, [i32, source, i32, i32], parser.pos)
    return _create(cls, operands=operands, result_types=[target], attributes=attributes)


def _nvvm_ballot(cls: Any, parser: Any) -> Any:
    """`%mask, %flag attr-dict : type`."""
    from xdsl.dialects.builtin import i1, i32

    values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    attributes = _attributes(parser)
    parser.parse_punctuation(":")
    kind = parser.parse_type()
    operands = parser.resolve_operands(values, [i32, i1], parser.pos)
    return _create(cls, operands=operands, result_types=[kind], attributes=attributes)


_ORDERINGS = ("not_atomic", "unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst")
"""Orders of atomics by their number in the generic form; there is no 3."""


def _compare_exchange(cls: Any, parser: Any) -> Any:
    """`%pointer, %expected, %new success failure attr-dict : pointer type, type`, of the old value and whether it was equal."""
    from xdsl.dialects.builtin import IntegerAttr, i1, i64
    from xdsl.dialects.llvm import LLVMStructType

    values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    attributes: dict[str, Any] = {}
    for name in ("success_ordering", "failure_ordering"):
        number = _ORDERINGS.index(parser.parse_identifier())
        attributes[name] = IntegerAttr(number + (number >= 3), i64)
    attributes |= _attributes(parser)
    parser.parse_punctuation(":")
    pointer, kind = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    operands = parser.resolve_operands(values, [pointer, kind, kind], parser.pos)
    result = LLVMStructType.from_type_list([kind, i1])
    return _create(cls, operands=operands, result_types=[result], attributes=attributes)


PREDICATES = {
    "arith.cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "arith.cmpf": (
        "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
    ),
}  # fmt: skip
"""The predicates of comparisons, by the number that the generic form has for them."""


def _compare(cls: Any, parser: Any) -> Any:
    """`predicate, %a, %b fastmath<...> attr-dict : type`, of an i1 or a vector of them, which xdsl's own op is not."""
    from xdsl.dialects.builtin import IntegerAttr, i64

    predicate = parser.parse_identifier()
    if predicate not in PREDICATES[cls.name]:
        parser.raise_error(f"{cls.name} has no predicate {predicate}")
    attributes: dict[str, Any] = {"predicate": IntegerAttr(PREDICATES[cls.name].index(predicate), i64)}
    parser.parse_punctuation(",")
    values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    attributes |= _fastmath(parser) | _attributes(parser)
    parser.parse_punctuation(":")
    kind = parser.parse_type()
    operands = parser.resolve_operands(values, [kind] * len(values), parser.pos)
    return _create(cls, operands=operands, result_types=[_flags_of(kind)], attributes=attributes)


def _fastmath(parser: Any) -> dict[str, Any]:
    if parser.parse_optional_keyword("fastmath") is None:
        return {}
    from xdsl.dialects.arith import FastMathFlagsAttr

    return {"fastmath": FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))}


def _flags_of(kind: Any) -> Any:
    """The type of bools in the shape of a type."""
    from xdsl.dialects.builtin import VectorType, i1

    return VectorType(i1, kind.shape) if isinstance(kind, VectorType) else i1


def _select(cls: Any, parser: Any) -> Any:
    """`%condition, %a, %b attr-dict : [condition type,] type`."""
    from xdsl.dialects.builtin import i1

    values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    attributes = _attributes(parser)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    flags, kind = types if len(types) == 2 else (i1, types[0])
    operands = parser.resolve_operands(values, [flags, kind, kind], parser.pos)
    return _create(cls, operands=operands, result_types=[kind], attributes=attributes)


def _execute_region(cls: Any, parser: Any) -> Any:
    """`-> types [no_inline] { ... } attr-dict`."""
    types: list[Any] = []
    if parser.parse_optional_punctuation("->") is not None:
        parsed = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        types = [parser.parse_type()] if parsed is None else parsed
    parser.parse_optional_keyword("no_inline")
    region = parser.parse_region()
    return _create(cls, result_types=types, regions=[region], attributes=_attributes(parser))


def _dimensions(names: str) -> dict[str, Parse]:
    return dict.fromkeys((f"gpu.{name}" for name in names.split()), _dimension)


_SYNTAX: dict[str, Parse] = {
    "gpu.module": _module,
    "gpu.func": _function,
    "gpu.return": _operands_and_types,
    "gpu.module_end": _bare,
    "gpu.launch_func": _launch,
    "gpu.barrier": _bare,
    "gpu.shuffle": _shuffle,
    **dict.fromkeys(("gpu.subgroup_reduce", "gpu.all_reduce"), _reduce),
    **_dimensions("thread_id block_id block_dim grid_dim global_id"),
    **dict.fromkeys(("gpu.lane_id", "gpu.subgroup_id", "gpu.num_subgroups", "gpu.subgroup_size"), _index),
    **dict.fromkeys((f"arith.{name}" for name in CAST_OPS), _cast),
    "arith.cmpi": _compare,
    "arith.cmpf": _compare,
    "arith.select": _select,
    "memref.atomic_rmw": _atomic,
    "memref.generic_atomic_rmw": _generic_atomic,
    "memref.atomic_yield": _operands_and_types,
    "memref.cast": _cast,
    "vector.splat": _one_operand(lambda kind: kind),
    "vector.extractelement": _lane,
    "vector.insertelement": _lane,
    "scf.execute_region": _execute_region,
    **dict.fromkeys(
        (f"llvm.intr.{name}" for name in "bitreverse ctpop trunc roundeven".split()), _function_form
    ),
    "llvm.intr.trap": _bare,
    "llvm.cmpxchg": _compare_exchange,
    "memref.extract_aligned_pointer_as_index": _arrow,
    "nvvm.cp.async.commit.group": _bare,
    "nvvm.cp.async.wait.group": _wait_group,
    "nvvm.shfl.sync": _nvvm_shuffle,
    "nvvm.vote.ballot.sync": _nvvm_ballot,
    "nvvm.bar.warp.sync": _operands_and_types,
}
"""Ops that xdsl cannot parse, or parses with a part dropped, and our parsers for them."""


@cache
def _context() -> Any:
    """xdsl's dialects, in which the ops of `_SYNTAX` are ours."""
    from xdsl.context import Context
    from xdsl.dialects import arith, builtin, cf, func, gpu, llvm, math, memref, scf, vector
    from xdsl.ir import Dialect

    defined = {name: _definition(name, parse) for name, parse in _SYNTAX.items()}
    context = Context(allow_unregistered=True)
    known = (
        builtin.Builtin, arith.Arith, cf.Cf, func.Func, gpu.GPU, llvm.LLVM, math.Math, memref.MemRef, scf.Scf, vector.Vector
    )  # fmt: skip
    for dialect in (*known, Dialect("nvvm", [], [])):
        # of the gpu dialect only the attributes: its ops hold the parts of one form alone
        kept = [op for op in dialect.operations if op.name not in defined and dialect is not gpu.GPU]
        dialect_ops = [op for name, op in defined.items() if name.partition(".")[0] == dialect.name]
        context.load_dialect(Dialect(dialect.name, [*kept, *dialect_ops], list(dialect.attributes)))
    return context


def _definition(name: str, parse: Parse) -> Any:
    """An op of any operands, results and regions."""
    from xdsl.irdl import IRDLOperation, irdl_op_definition, var_operand_def, var_region_def, var_result_def

    parts = {
        "name": name,
        "all_operands": var_operand_def(),
        "all_results": var_result_def(),
        "all_regions": var_region_def(),
        "parse": classmethod(parse),
        "__module__": __name__,
    }
    plain = type(f"{name.title().replace('.', '').replace('_', '')}Op", (IRDLOperation,), parts)
    return irdl_op_definition(plain)
