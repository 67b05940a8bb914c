"""Tables of patterns in the compile cache, under a key of the patterns, their options, and the sources that make them.

What is read is checked as tables from anywhere are: it becomes no wrong index.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .. import patterns as patterns_package
from ..execution.cache.compilations import fetch, new_log, pack_parts, unpack_parts
from ..execution.cache.store import Store
from ..patterns.expression import Expression, read_expressions
from ..patterns.pattern_list import Patterns
from ..patterns.rule_facts import Facts
from ..specialization.digest import digest_of
from .tables import Atoms, PatternTables, SearchTables, atoms_of

__all__ = ["KIND", "cached_tables", "decode", "encode"]

KIND = "patterns"

FEW_BYTES = 1 << 15
"""Literals that have fewer together are compiled in less time than a store takes to keep and to find them."""

Array = np.ndarray[Any, Any]

_DTYPES: dict[str, np.dtype[Any]] = {kind: np.dtype(f"<{kind}") for kind in ("u1", "u4", "i8")}


def cached_tables(patterns: Patterns, caseless: bool, store: Store | None) -> PatternTables:
    """The tables of patterns, from the store if it has them; None: without one.  Raises PatternError, LimitExceeded."""
    if not patterns.expressions and sum(map(len, patterns.contents)) < FEW_BYTES:
        return _tables(patterns, caseless)

    def compile() -> tuple[bytes, PatternTables]:
        tables = _tables(patterns, caseless)
        return (b"" if store is None else encode(tables)), tables

    return fetch(
        store,
        KIND,
        lambda: _key(patterns, caseless),
        lambda payload: decode(payload, patterns, caseless),
        compile,
        new_log(),
        f"{len(patterns.contents)} patterns",
    )


def _tables(patterns: Patterns, caseless: bool) -> PatternTables:
    literals = [
        content for number, content in enumerate(patterns.contents) if number not in patterns.expressions
    ]
    expressions = read_expressions(patterns)
    of_literals = SearchTables.of_literals(literals, caseless) if literals else None
    return PatternTables(patterns, caseless, of_literals, tuple(expressions), tuple(atoms_of(expressions)))


def _key(patterns: Patterns, caseless: bool) -> bytes:
    contents = patterns.contents
    syntax = [(number, one.flags, one.is_text, one.is_of_re) for number, one in patterns.expressions.items()]
    return digest_of(
        [
            ("compiler", "sources", _sources()),
            ("caseless", "bool", bytes([caseless])),
            ("syntax", "rows of i64", np.array(syntax, "<i8").tobytes()),
            ("lengths", "u32", np.fromiter(map(len, contents), "<u4", len(contents)).tobytes()),
            ("patterns", "bytes", b"".join(contents)),
        ]
    )


@cache
def _sources() -> bytes:
    """A hash of the sources of this folder's tables and of `vyre_opt.patterns`: a checkout changes between versions."""
    from blake3 import blake3

    digest = blake3()
    here = (Path(__file__).with_name(name) for name in ("cached_patterns.py", "tables.py", "prefilter.py"))
    for path in (*sorted(Path(patterns_package.__path__[0]).glob("*.py")), *here):
        content = path.read_bytes()
        digest.update(path.name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
    return digest.digest()


def encode(tables: PatternTables) -> bytes:
    """A payload: the types and shapes of the arrays, what is known of expressions, and the arrays' bytes (little endian)."""
    arrays: dict[str, Array] = {}
    for number, (automaton, atoms) in enumerate(tables.automata):
        own = automaton.to_arrays()
        if atoms is not None:
            own |= {"offsets": atoms.offsets, "owners": atoms.owners}
        arrays |= {f"{number}.{name}": array for name, array in own.items()}
    shapes = {name: [array.dtype.str[1:], *array.shape] for name, array in arrays.items()}
    expressions = [
        [one.number, one.source.decode("latin-1"), one.flags, asdict(one.facts) | {"atoms": ()}]
        for one in tables.expressions
    ]
    facts = {"arrays": shapes, "expressions": expressions, "automata": len(tables.automata)}
    chunks = [arrays[name].astype(_DTYPES[shapes[name][0]]).tobytes() for name in sorted(shapes)]
    return pack_parts(facts, b"".join(chunks))


def decode(payload: bytes, patterns: Patterns, caseless: bool) -> PatternTables:
    """The tables of a payload, which was made of these patterns.  Raises ValueError, KeyError or TypeError if it is none."""
    facts, content = unpack_parts(payload)
    shapes = facts["arrays"]
    groups: list[dict[str, Array]] = [{} for _ in range(facts["automata"])]
    at = 0
    for name in sorted(shapes):
        kind, *shape = shapes[name]
        size = _DTYPES[kind].itemsize * prod(shape)
        if not all(isinstance(extent, int) and extent >= 0 for extent in shape) or at + size > len(content):
            raise ValueError(f"the bytes of {name} are not all there")
        array = np.frombuffer(content, _DTYPES[kind], prod(shape), at).reshape(shape)
        number, _, name = name.partition(".")
        groups[int(number)][name] = array.astype(_DTYPES[kind].newbyteorder("="), copy=False)
        at += size
    expressions = tuple(
        Expression(number, source.encode("latin-1"), flags, Facts(**known), patterns.expressions[number].rule)
        for number, source, flags, known in facts["expressions"]
    )
    automata = [(SearchTables.from_arrays(group), _owners(group, len(expressions))) for group in groups]
    literals = next((tables for tables, owners in automata if owners is None), None)
    atoms = tuple(Atoms(tables, *owners) for tables, owners in automata if owners is not None)
    for one in atoms:
        if len(one.offsets) != one.tables.compiled.num_patterns + 1:
            raise ValueError("each atom has owners")
    if (literals is None) != (len(expressions) == len(patterns.contents)):
        raise ValueError("the literals are those of the patterns")
    return PatternTables(patterns, caseless, literals, expressions, atoms)


def _owners(group: dict[str, Array], num_expressions: int) -> tuple[Array, Array] | None:
    if "offsets" not in group:
        return None
    offsets, owners = group.pop("offsets"), group.pop("owners")
    is_right = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(owners)
    if not is_right or (np.diff(offsets) < 0).any() or not ((owners >= 0) & (owners < num_expressions)).all():
        raise ValueError("the owners of atoms are expressions")
    return offsets, owners
