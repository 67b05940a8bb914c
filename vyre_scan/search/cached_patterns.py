"""Expressions in the compile cache: what is known of them, and the automata of their atoms, under a key of the expressions and
the sources that make them.  Automata of literals are built in less time than a store takes to find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

from vyre_opt.execution.cache.compilations import fetch, new_log, pack_parts, unpack_parts
from vyre_opt.execution.cache.store import Store
from vyre_opt.specialization.digest import digest_of

from .. import patterns as patterns_package
from ..arrays import Array
from ..patterns.automaton import Automaton
from ..patterns.expression import Expression, read_expressions
from ..patterns.pattern_list import BOUNDS, Patterns
from ..patterns.rule_facts import Facts
from .tables import PatternTables, SearchTables, atom_tables

__all__ = ["KIND", "cached_tables", "decode", "encode"]

KIND = "patterns"

Expressions = tuple[Expression, ...]

_ARRAYS = tuple(field.name for field in fields(Automaton))


def cached_tables(patterns: Patterns, caseless: bool, store: Store | None) -> PatternTables:
    """The tables of patterns, from the store if it has them; None: without one.  Raises PatternError, LimitExceeded."""
    contents = enumerate(patterns.contents)
    literals = [content for number, content in contents if number not in patterns.expressions]
    searches = [SearchTables.of_literals(literals, caseless)] if literals else []
    if not patterns.expressions:
        return PatternTables(patterns, caseless, searches)

    def compile() -> tuple[bytes, tuple[Expressions, list[SearchTables]]]:
        expressions = tuple(read_expressions(patterns))
        atoms = atom_tables(expressions)
        return (b"" if store is None else encode(expressions, atoms)), (expressions, atoms)

    expressions, atoms = fetch(
        store,
        KIND,
        lambda: _key(patterns),
        lambda payload: decode(payload, patterns),
        compile,
        new_log(),
        f"{len(patterns.expressions)} expressions",
    )
    return PatternTables(patterns, caseless, [*searches, *atoms], expressions)


def _key(patterns: Patterns) -> bytes:
    syntax = [
        (number, one.flags, one.is_text, one.is_of_re, BOUNDS.index(one.bounds))
        for number, one in patterns.expressions.items()
    ]
    contents = [patterns.contents[number] for number in patterns.expressions]
    return digest_of(
        [
            ("compiler", "sources", _sources()),
            ("syntax", "rows of i64", np.array(syntax, "<i8").tobytes()),
            ("lengths", "u32", np.fromiter(map(len, contents), "<u4", len(contents)).tobytes()),
            ("patterns", "bytes", b"".join(contents)),
        ]
    )


@cache
def _sources() -> bytes:
    """A hash of the sources that make tables: a checkout changes between versions."""
    from blake3 import blake3

    digest = blake3()
    here = (Path(__file__).with_name(name) for name in ("cached_patterns.py", "tables.py"))
    for path in (*sorted(Path(patterns_package.__path__[0]).glob("*.py")), *here):
        content = path.read_bytes()
        digest.update(path.name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
    return digest.digest()


def encode(expressions: Expressions, atoms: Sequence[SearchTables]) -> bytes:
    """A payload: what is known of expressions, and the arrays of automata, one after the other."""
    strings = [tables for tables in atoms if not tables.literals]
    arrays = [getattr(tables.automaton, name) for tables in strings for name in _ARRAYS]
    facts = {
        "expressions": [
            [one.number, one.source.decode("latin-1"), asdict(one.facts) | {"atoms": ()}]
            for one in expressions
        ],
        "literals": [
            ([literal.decode("latin-1") for literal in tables.literals], tables.owners)
            for tables in atoms
            if tables.literals
        ],
        "strings": [tables.owners for tables in strings],
        "arrays": [[array.dtype.str, *array.shape] for array in arrays],
    }
    return pack_parts(facts, b"".join(array.tobytes() for array in arrays))


def decode(payload: bytes, patterns: Patterns) -> tuple[Expressions, list[SearchTables]]:
    """The expressions of a payload of these patterns, and the tables of their atoms.  Raises any exception for another payload."""
    facts, content = unpack_parts(payload)
    arrays, at = list[Array](), 0
    for kind, *shape in facts["arrays"]:
        arrays.append(np.frombuffer(content, kind, prod(shape), at).reshape(shape))
        at += arrays[-1].nbytes
    automata = [Automaton(*arrays[k : k + len(_ARRAYS)]) for k in range(0, len(arrays), len(_ARRAYS))]
    strings = map(SearchTables, automata, facts["strings"])
    syntax = patterns.expressions
    expressions = tuple(
        Expression(number, source.encode("latin-1"), syntax[number], Facts(**values))
        for number, source, values in facts["expressions"]
    )
    literals = [
        SearchTables.of_literals([literal.encode("latin-1") for literal in literals], True, owners)
        for literals, owners in facts["literals"]
    ]
    return expressions, [*literals, *strings]
