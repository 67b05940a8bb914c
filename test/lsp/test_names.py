"""Renaming leaves the meaning of a text as it is, or is refused; definitions and uses are found by scopes."""

from __future__ import annotations

import random
import re

import pytest

from vyre_opt import parse
from vyre_opt.lsp.navigation import RenameError, name_at, places, rename
from vyre_opt.syntax.printer import canonical_text

SCOPES = """vyre 1

func @f(%x : u32) -> u32 {
  yield %x
}

program @p workgroup(32) {
  buffer @x : u32[32] read_write binding(0) live_in live_out
  spec @n : u32 = 4

  %i = lane_id
  %x = load @x[%i] : u32
  %n = spec @n : u32
  %sum = for %k = 0 to %n step 1 iter(%acc = %x : u32) {
    %t = add %acc, %k : u32
    yield %t
  }
  %c = lt %x, %n : u32
  %r = if %c -> u32 {
    %t = call @f(%sum) : (u32) -> u32
    yield %t
  } else {
    %t = add %x, %n : u32
    yield %t
  }
  store %r, @x[%i] : u32
}

pipeline @main {
  buffer @x : u32[32] live_in live_out
  buffer @y : u32[add(@n, len(@x)), @n]
  param @n : u32
  launch @p grid(1) (@x)
}
"""


def apply(text, edits):
    for span, new in sorted(edits, reverse=True):
        text = text[: span.start] + new + text[span.end :]
    return text


def at(text, marked):
    """The offset of the `|` in a piece of the text."""
    before, after = marked.split("|")
    return text.index(before + after) + len(before)


@pytest.mark.parametrize(
    ("marked", "count"),
    [
        ("%|i = lane_id", 3),
        ("%|x = load", 4),  # its use in iter(...), not the argument of @f
        ("func @f(%|x", 2),
        ("%|k = 0", 2),
        ("iter(%|acc", 2),
        ("%|t = add %acc", 2),  # each block has its own
        ("%|t = call", 2),
        ("%|sum = for", 2),
        ("spec @|n : u32 = 4", 2),  # not the value %n
        ("store %r, @|x", 3),  # the program's buffer, not the pipeline's
        ("launch @|p", 2),
        ("call @|f", 2),
        ("buffer @|x : u32[32] live_in", 3),
        ("add(@|n", 3),  # the pipeline's param, not the program's constant
        (", @|n]", 3),
    ],
)
def test_a_name_is_what_its_scope_says(marked, count):
    name = name_at(SCOPES, at(SCOPES, marked))
    assert len(places(name)) == count
    assert len(name.definitions) == 1
    assert len({SCOPES[a:b] for a, b in places(name)}) == 1


@pytest.mark.parametrize(
    ("marked", "new"),
    [("%|i = lane_id", "x"), ("%|x = load", "%t"), ("%|t = call", "sum"), ("%|i = lane_id", "a b"), ("%|i = lane_id", ""),
     ("%|i = lane_id", "@i"), ("buffer @|x : u32[32] read", "n"), ("launch @|p", "p.2%"), ("%|k = 0", "acc")],
)  # fmt: skip
def test_names_that_clash_or_are_none_are_refused(marked, new):
    with pytest.raises(RenameError):
        rename(SCOPES, name_at(SCOPES, at(SCOPES, marked)), new)


def test_a_name_of_another_block_does_not_clash():
    """%t of one arm may have a name that the other arm has as well."""
    text = SCOPES.replace("%t = add %x", "%u = add %x").replace(
        "yield %t\n  }\n  store", "yield %u\n  }\n  store"
    )
    parse(text)
    renamed = apply(text, rename(text, name_at(text, at(text, "%|t = call")), "u"))
    assert [canonical_text(i) for i in parse(renamed).order] == [canonical_text(i) for i in parse(text).order]


def test_there_is_no_name_in_comments_strings_and_space():
    text = 'vyre 1\nprogram @p workgroup(1) {\n  // %a and @p\n  trap "%a @p"\n}\n'
    for place in (text.index("%a"), text.index("@p\n"), text.index('"%a') + 2, text.index("trap")):
        assert name_at(text, place) is None


def test_renaming_keeps_the_meaning(valid_texts):
    """Of any name in any text: to a new name, and to one that the text has already, unless that is refused."""
    choose = random.Random(1)
    renamed = refused = 0
    for text in valid_texts:
        before = [canonical_text(item) for item in parse(text).order]
        matches = list(re.finditer(r"[%@][\w.$]+", text))
        for match in choose.sample(matches, min(6, len(matches))):
            name = name_at(text, match.start())
            if name is None or not name.definitions:
                continue
            for new in ("a_new.name", choose.choice([m[0] for m in matches if m[0][0] == match[0][0]])):
                try:
                    after = parse(apply(text, rename(text, name, new)))
                except RenameError:
                    refused += 1
                    continue
                renamed += 1
                if name.binding is not None:  # names of values mean nothing, others are a part of the meaning
                    assert [canonical_text(item) for item in after.order] == before, (match[0], new)
    assert renamed > 2 * len(valid_texts)
    assert refused > len(valid_texts)
