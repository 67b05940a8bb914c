"""Messages for syntax errors.

An LR parser's state at an error says what was being read.  Each row of `_EXAMPLES` pairs a message
with texts that contain the error; parsing those texts tells to which states and tokens the message
belongs.  This is the method of C. L. Jeffery, "Generating LR syntax error messages from examples",
ACM TOPLAS 25(5), 2003: a change of the grammar renumbers the states, but not the examples.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .parse_loop import Token, run
from .tables import END, Tables, load

DECLARATION = "a declaration after the first op"
CLOSING_BRACE = "the closing brace is missing"

_P = "vyre 1 program @p workgroup(1) { "

# (message, help, wrong texts)
_EXAMPLES: list[tuple[str, str | None, list[str]]] = [
    ("a .vyre text begins with its format version", "write vyre 2 as the first line",
     ["", "program", "%x =", "buffer", "pipeline", "func", "foo", "@x", "{", "1"]),
    ("the format version is a number", "write vyre 2", ["vyre", "vyre program", "vyre x"]),
    ("expected a program, a func or a pipeline", None,
     ["vyre 1 foo", "vyre 1 buffer", "vyre 1 %x =", "vyre 1 {", "vyre 1 }", "vyre 1 @x", "vyre 1 if", "vyre 1 for",
      _P + "} foo", _P + "} buffer", _P + "} %x =", _P + "} {", _P + "} @x", _P + "} if", _P + "} for", _P + "} else",
      _P + "} launch", _P + "} spec"]),
    ("a program has a name", "write program @name workgroup(256) {", ["vyre 1 program foo", "vyre 1 program {"]),
    ("expected workgroup(...), cluster(...), grid(...), prefer(...) or {", "write program @name workgroup(256) {",
     ["vyre 1 program @p foo", "vyre 1 program @p %x =", "vyre 1 program @p buffer", "vyre 1 program @p }",
      "vyre 1 program @p workgroup(1) foo", "vyre 1 program @p workgroup(1) %x =",
      "vyre 1 program @p workgroup(1) buffer", "vyre 1 program @p workgroup(1) }"]),
    ("a buffer has a name", "write buffer @name : u32[64] read", [_P + "buffer x", _P + "buffer :", _P + "buffer foo"]),
    ("a buffer's name is followed by its type", "write buffer @name : u32[64] read",
     [_P + "buffer @b u32", _P + "buffer @b read", _P + "buffer @b [", _P + "buffer @b }"]),
    ("a buffer's type is followed by its count in brackets", "write u32[64], or u32[?] for an open size",
     [_P + "buffer @b : u32 read", _P + "buffer @b : u32 }", _P + "buffer @b : u32 (", _P + "buffer @b : u32 write",
      _P + "buffer @b : u32 read_write", _P + "buffer @b : u32 buffer"]),
    ("a count is a number or ?", "write u32[64], or u32[?] for an open size",
     [_P + "buffer @b : u32[x", _P + "buffer @b : u32[]", _P + "buffer @b : u32[%n", _P + "buffer @b : u32[foo"]),
    ("not a buffer flag", "the flags are read, write, read_write, workgroup, cluster, live_in, live_out and binding(N)",
     [_P + "buffer @b : u32[4] x", _P + "buffer @b : u32[4] grid", _P + "buffer @b : u32[4] ,"]),
    (DECLARATION, "declare buffers and spec constants before the ops",
     [_P + "%x = lane_id buffer", _P + "%x = lane_id spec", _P + "barrier workgroup buffer"]),
    ("expected an op", None, [_P + "%x = 3", _P + "%x = @b", _P + "%x = %y", _P + "%x = {", _P + "%x = }"]),
    ("an op is missing after `=`", None, [_P + "%x = %y ="]),
    ("operands are separated by commas", "write %r = add %a, %b : f32",
     [_P + "%x = add %a %b", _P + "%x = add %a @b", _P + "%x = call @f(%a %b", _P + "%x = add %a 3"]),
    ("an operand is a value or a constant", "write %r = add %a, %b : f32, each operand a name that begins with %",
     [_P + "%x = add %a, foo", _P + "%x = add %a, :", _P + "%x = add %a, %c ="]),
    ("expected a type after the colon", "types are u32, f32, bool, vec<4 x f32> and the like",
     [_P + "%x = add %a, %b : 3", _P + "%x = add %a, %b : %c", _P + "%x = add %a, %b : }", _P + "%x = add %a, %b : %c =",
      _P + "%x = const 1 : }", _P + "%x = const 1 : %c =", _P + "buffer @b : 3", _P + "buffer @b : [", _P + "buffer @b : }"]),
    ("an index is a value in brackets", "write load @buffer[%i] : u32",
     [_P + "%x = load @b[]", _P + "store %a, @b[]", _P + "%x = load @b[foo", _P + "%x = load @b[@x"]),
    ("the closing bracket of an index is missing", None, [_P + "%x = load @b[%i :", _P + "%x = load @b[%i )", _P + "%x = load @b[%i, %j :",
      _P + "%x = load @b[%i, %j )", _P + "store %a, @b[%i :", _P + "store %a, @b[%i )", _P + "store %a, @b[%i, %j :"]),
    ("a for counts `= LOWER to UPPER step STEP`", "write for %k = 0 to 256 step 1 {",
     [_P + "for x", _P + "for %k in", _P + "for %k", _P + "for %k = 0 {", _P + "for %k = 0 , ", _P + "for %k = {", _P + "for %k = 0 to {",
      _P + "for %k = 0 to 4 step {", _P + "for {", _P + "for ("]),
    ("an iteration argument is %name = %initial : type", "write iter(%sum = %zero : u32)",
     [_P + "for %k = 0 to 4 iter %a", _P + "for %k = 0 to 4 iter(3", _P + "for %k = 0 to 4 iter(%a )", _P + "for %k = 0 to 4 iter(%a = 3",
      _P + "for %k = 0 to 4 iter(%a = %b )", _P + "for %k = 0 to 4 iter()"]),
    ("expected the `{` of a block", None,
     [_P + "if %c %x =", _P + "if %c store", _P + "if %c }", _P + "for %k = 0 to 4 step 1 %x =", _P + "for %k = 0 to 4 step 1 store",
      _P + "region @r %x =", _P + "if %c { } else %x =", _P + "if %c { } else store", _P + "if %c { } else if"]),
    ("the condition of an if is a value", "write %c = lt %a, %b : f32 before it, and if %c {", [_P + "if (", _P + "if {", _P + "if lt"]),
    ("an assert has a condition and a message", 'write assert %condition, "what went wrong"',
     [_P + "assert (", _P + "assert {", _P + "assert lt", _P + "assert \"m\"", _P + "assert %c \"m\"", _P + "assert %c }",
      _P + "assert %c, }", _P + "assert %c, %d", _P + "assert %c %x =", _P + "assert %c store"]),
    ("a debug_print has a format, then its operands", 'write debug_print "i=%u" %i',
     [_P + "debug_print %c", _P + "debug_print (", _P + "debug_print }", _P + "debug_print lt", _P + "debug_print \"m\",",
      _P + "debug_print \"m\" , %c", _P + "debug_print store", _P + "debug_print %c ="]),
    ("a while has a condition block, then `do` and its body", "write while iter(...) { condition %c } do { yield %next }",
     [_P + "while %c", _P + "while { } {", _P + "while { } %x =", _P + "while { } }"]),
    ("a grid is given as grid(N) before the buffers", "write launch @program grid(4096) (@in, @out)",
     ["vyre 1 pipeline @m { launch @p (", "vyre 1 pipeline @m { launch @p grid 4"]),
    ("a repeat says how often", "write repeat 4 {", ["vyre 1 pipeline @m { repeat {", "vyre 1 pipeline @m { repeat launch"]),
    ("a fill has a buffer and a value", "write fill(@x, 0)",
     ["vyre 1 pipeline @m { fill @x", "vyre 1 pipeline @m { fill 0", "vyre 1 pipeline @m { fill( 0", "vyre 1 pipeline @m { fill( )",
      "vyre 1 pipeline @m { fill( x", "vyre 1 pipeline @m { fill(@x )", "vyre 1 pipeline @m { fill(@x 0", "vyre 1 pipeline @m { fill(@x =",
      "vyre 1 pipeline @m { fill(@x, x", "vyre 1 pipeline @m { fill(@x, @y", "vyre 1 pipeline @m { fill(@x, )", "vyre 1 pipeline @m { fill(@x, %c",
      "vyre 1 pipeline @m { fill(@x, 0 ,", "vyre 1 pipeline @m { fill(@x, 0 }", "vyre 1 pipeline @m { fill }", "vyre 1 pipeline @m { fill launch"]),
    ("a fill is a stage of a pipeline, and no op", "write store 0, @x[%i] in a program", [_P + "fill", _P + "buffer @b : u32[4] fill", _P + "%x = lane_id fill", _P + "%x = fill"]),
    ("expected a buffer, a launch, a fill, a host_read or a kernel", None,
     ["vyre 1 pipeline @m { foo", "vyre 1 pipeline @m { %x =", "vyre 1 pipeline @m { store"]),
    ('a location is loc("file":line:column)', 'write loc("softmax.vyre":7:3), or loc(unknown)',
     [_P + "barrier workgroup loc %x", _P + "barrier workgroup loc(", _P + "barrier workgroup loc(7", _P + 'barrier workgroup loc("f"',
      _P + 'barrier workgroup loc("f")', _P + 'barrier workgroup loc("f" 7', _P + 'barrier workgroup loc("f":x',
      _P + 'barrier workgroup loc("f":7)', _P + 'barrier workgroup loc("f":7:x', _P + 'barrier workgroup loc("f":7:3 }',
      _P + 'barrier workgroup loc("f":7:3 %x =', _P + "barrier workgroup loc()", _P + "barrier workgroup loc(f:"]),
    (CLOSING_BRACE, None,
     [_P, _P + "%x = lane_id", _P + "if %c {", "vyre 1 pipeline @m {",
      "vyre 1 func @f() { yield %x", _P + "%x = lane_id program", _P + "%x = lane_id pipeline",
      _P + "%x = lane_id func", _P + "%x = add %a, %b : u32 program", _P + "%x = add %a, %b : u32 pipeline",
      _P + "%x = add %a, %b : u32 func", _P + "if %c { } program", _P + "if %c { } func"]),
    ("an extra closing brace", "leave it out, or open its block", [_P + "} }"]),
]  # fmt: skip

_SPELLINGS = {
    "RESULTS": "%result =", "VALUE": "a value (%name)", "SYMBOL": "a name (@name)", "NAME": "a word",
    "INT": "an integer", "FLOAT": "a float", "STRING": "a string", "KERNEL": "a kernel", END: "the end",
    "LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "COMMA": ",",
    "COLON": ":", "EQUAL": "=", "QMARK": "?", "LESSTHAN": "<", "MORETHAN": ">", "CIRCUMFLEX": "^",
}  # fmt: skip


class _StopParsing(Exception):
    pass


class _FirstError:
    """Actions that build nothing and stop at the first syntax error, which is then `at` a state and token."""

    distinct_errors = 0
    at: tuple[int, int] = (-1, -1)

    def __getattr__(self, name: str) -> Any:
        return lambda *parts: None

    def syntax_error(self, values: list[Any], preceding: Any, state: int, token: Token, start: int) -> None:
        self.at = (state, token.terminal)
        raise _StopParsing


@cache
def _rows_by_error(loaded: Tables) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """(state, terminal) -> row of _EXAMPLES, and state -> row where only one row names the state.

    Done at the first error of a process: texts without one need no messages.  Tables that were computed twice may
    number their states in two ways.
    """
    exact: dict[tuple[int, int], int] = {}
    by_state: dict[int, set[int]] = {}
    for row, (_, _, texts) in enumerate(_EXAMPLES):
        for text in texts:
            first = _FirstError()
            try:
                run(text, loaded, first, frozenset())
            except _StopParsing:
                exact.setdefault(first.at, row)
                by_state.setdefault(first.at[0], set()).add(row)
    return exact, {state: min(rows) for state, rows in by_state.items() if len(rows) == 1}


def warm_up() -> None:
    """Do now what would be done at the first error of the process."""
    _rows_by_error(load())


def explain(source: str, tables: Tables, state: int, token: Token) -> tuple[str, str | None]:
    """The message for a token that does not fit in `state`, and a help line if there is one."""
    text = source[token.start : token.end]  # as written; recovery may have changed `token.text`
    name = tables.terminals[token.terminal]
    if name == "$BAD":
        if text == '"':
            return "this string has no end", "close it with a quote on the same line"
        behind = source[token.end : token.end + 1]
        if (
            text in "%@" and behind.isalpha()
        ):  # which is no sign that begins a name, or the name would be read
            text = behind
        help = "names have letters a to z and A to Z, digits, _, . and $" if text.isalnum() else None
        return f"unexpected character {text!r}", help
    if name == END and not source.strip():
        return "the text is empty", "a .vyre text begins with vyre 2"
    exact, by_state = _rows_by_error(tables)
    at = (state, token.terminal)
    row = exact.get(at, by_state.get(state))
    if row is not None:
        message, help, _ = _EXAMPLES[row]
        return (message, help) if name != END or at in exact else ("the text ends too early", help)
    problem = "the text ends here" if name == END else f"unexpected {text[:40].split(chr(10))[0]!r}"
    terminals = map(tables.terminals.__getitem__, tables.actions[state])
    expected = sorted({_spelling(tables, t) for t in terminals})
    return (f"{problem}; expected {' or '.join(expected)}" if len(expected) <= 6 else problem), None


def _spelling(tables: Tables, terminal: str) -> str:
    """A terminal in a message: a keyword as itself, and `->`, which Lark gives no name, by exclusion."""
    words = (word for word, number in tables.keywords.items() if tables.terminals[number] == terminal)
    return _SPELLINGS.get(terminal) or next(words, "->")
