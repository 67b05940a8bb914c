"""Types in sentences: the article follows the letter that is spoken."""

from __future__ import annotations

import pytest

from vyre_opt import DiagnosticError, parse
from vyre_opt.ir.types import with_article


@pytest.mark.parametrize("name", "i8 i32 f16 f32 f64 f8e4m3 i4 fp4 nf4 array opaque int".split())
def test_vowels(name: str) -> None:
    assert with_article(name) == f"an {name}"


@pytest.mark.parametrize("name", ["u8", "u32", "bool", "bf16", "vec<4 x i32>", "handle", "float", "T"])
def test_consonants(name: str) -> None:
    assert with_article(name) == f"a {name}"


@pytest.mark.parametrize(
    ("value", "dtype", "said"),
    [("1.5", "i32", "1.5 is a float, not an i32"), ("true", "u32", "true is a bool, not a u32")],
)
def test_a_literal_of_another_type(value: str, dtype: str, said: str) -> None:
    with pytest.raises(DiagnosticError, match=said):
        parse(f"vyre 1 program @p workgroup(1) {{ spec @a : {dtype} = {value} }}")
