"""What a secret looks like: regular expressions that vyre-opt and `re` both take, and how an example of each is drawn.

Every expression ends in a fixed number of characters or in a character that it cannot contain before, so that a secret
is one match: Scanner reports each place where a match ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from string import ascii_letters, ascii_uppercase, digits

__all__ = ["EXPRESSIONS", "FORMS", "Form", "near_miss"]


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of secret.  `draw` gives one, as text that `expression` matches from end to end."""

    name: str
    expression: bytes
    draw: Callable[[Random], str]


def _drawn(draw: Random, letters: str, count: int) -> str:
    return "".join(draw.choices(letters, k=count))


def _private_key(draw: Random) -> str:
    return f"-----BEGIN {draw.choice(('', 'RSA ', 'EC ', 'OPENSSH '))}PRIVATE KEY-----"


def _password(draw: Random) -> str:
    name = draw.choice(("password", "Password", "PASSWORD"))
    joined = draw.choice((" = ", ": ", "="))
    return f"{name}{joined}'{_drawn(draw, ascii_letters + digits + '!#%&*+-./', draw.randint(8, 32))}'"


FORMS = (
    Form("key id", rb"AKIA[0-9A-Z]{16}", lambda draw: "AKIA" + _drawn(draw, ascii_uppercase + digits, 16)),
    Form("private key", rb"-----BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY-----", _private_key),
    Form("token", rb"ghp_[0-9A-Za-z]{36}", lambda draw: "ghp_" + _drawn(draw, ascii_letters + digits, 36)),
    Form("password", rb"(?i:password)\s?[=:]\s?'[^'\s]{8,32}'", _password),
)

EXPRESSIONS = [re.compile(form.expression) for form in FORMS]


def near_miss(draw: Random) -> str:
    """What a careless search takes for a secret: one character too short, or of another kind."""
    return draw.choice(
        (
            "AKIA" + _drawn(draw, ascii_uppercase + digits, 15) + "-",
            "-----BEGIN PUBLIC KEY-----",
            "ghp_" + _drawn(draw, ascii_letters + digits, 35) + ".",
            "password = '" + _drawn(draw, ascii_letters, 7) + "'",
        )
    )
