"""--verify-diagnostics fails for each way in which a text and its messages can disagree."""

import pytest
from support.tools_inside import call_opt

HEAD = "vyre 1\nprogram @p workgroup(1) {\n"


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ("%x = popcount %a : u32\n", ["3:15: error: unexpected error: %a is not defined"]),
        (
            "%x = lane_id // expected-error {{gone}}\n",
            ['3:17: error: expected error "gone" was not produced'],
        ),
        (
            "%x = popcount %a : u32 // expected-error {{something else}}\n",
            ["unexpected error: %a is not defined", 'expected error "something else" was not produced'],
        ),
        (
            "%x = popcount %a : u32 // expected-warning {{%a}}\n",
            ["unexpected error: %a", 'expected warning "%a" was not'],
        ),
        ("// expected-error {{%a}}\n%x = popcount %a : u32\n", ["unexpected error", "was not produced"]),
        (
            "%x = popcount %a : u32 // expected-error 2 {{%a}}\n",
            ['expected error "%a" was not produced, 1 of 2 times'],
        ),
        ("%x = add %a, %b : u32 // expected-error {{is not}}\n", ["unexpected error: %b is not defined"]),
        ("%x = lane_id // expected-eror {{typo}}\n", ["not an expectation", "help: write expected-error"]),
        ("%x = lane_id // expected-error {typo}\n", ["not an expectation"]),
    ],
)
def test_mismatch(body, messages):
    ran = call_opt("--verify-diagnostics", text=f"{HEAD}{body}}}\n")
    assert ran.returncode == 1
    for message in messages:
        assert message in ran.stderr
    assert ran.stderr.count("error: ") >= len(messages) - ("help" in messages[-1])


@pytest.mark.parametrize(
    "body",
    [
        "%x = popcount %a : u32 // expected-error {{%a is not defined}}\n",
        "// expected-error @+1 {{%a}}\n%x = popcount %a : u32\n",
        "// expected-error@below{{%a}}\n%x = popcount %a : u32\n",
        "%x = add %a, %b : u32 // expected-error 2 {{is not defined}}\n",
        "%x = add %a, %b : u32 // expected-error 1+ {{is not defined}} expected-error {{%a}}\n",
        "%x = lane_id\n",
        '%x = lane_id\n"expected-error {{not in a comment}}"() : () -> () // expected-error {{}}\n',
    ],
)
def test_match(body):
    ran = call_opt("--verify-diagnostics", text=f"{HEAD}{body}}}\n")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_message_without_a_place_is_expected_as_unknown():
    text = "vyre 1\n// expected-error @unknown {{no program has a spec @k}}\n"
    assert call_opt("--verify-diagnostics", "--spec=k=1", text=text).returncode == 0
    assert call_opt("--verify-diagnostics", text=text).returncode == 1


def test_a_message_about_another_text_is_expected_as_unknown():
    """Its line says nothing of this one."""
    text = 'vyre 2\n// expected-error @unknown {{%c is u32, not bool}}\nprogram @p workgroup(64) {\n  %c = const 1 : u32 loc("other.vyre":4:3)\n  if %c {\n    barrier subgroup\n  } loc("other.vyre":5:3)\n} loc("other.vyre":3:9)\n// expected-note @unknown {{%c is defined here}}\n'
    ran = call_opt("--verify-diagnostics", text=text)
    assert (ran.returncode, ran.stderr) == (0, "")
