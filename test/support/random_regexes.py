"""Random regular expressions, each written together with a function that gives strings which it is likely to match."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["RandomExpressions"]

Sampler = Callable[[], bytes]
Part = tuple[bytes, Sampler]

LETTERS = b"abcxyzABKE019_-. \n=/"
WORDS = [b"key", b"AKIA", b"token", b"secret", b"SK", b"ab", b"-----BEGIN", b"api_key", b"://", b"xoxb-"]
CLASSES = [
    rb"[a-z]",
    rb"[0-9a-f]",
    rb"[^\n]",
    rb"\d",
    rb"\w",
    rb"\s",
    rb"[A-Z2-7]",
    rb"[ab]",
    rb".",
    rb"\S",
    rb"[^a]",
]


@dataclass(slots=True)
class RandomExpressions:
    """`rng` decides all; groups are counted so that references name those that are closed."""

    rng: random.Random
    groups: int = 0

    def expression(self) -> Part:
        """One that `re` takes for bytes."""
        while True:
            self.groups = 0
            flags = self.rng.choice((b"", b"", b"", b"(?i)", b"(?s)", b"(?m)", b"(?im)"))
            pattern, sample = self.sequence(2)
            try:
                re.compile(flags + pattern)
            except re.error:
                continue
            return flags + pattern, sample

    def sequence(self, depth: int) -> Part:
        parts = [self.repeated(depth) for _ in range(self.rng.choice((1, 1, 2, 2, 3, 4)))]
        return b"".join(part for part, _ in parts), lambda: b"".join(sample() for _, sample in parts)

    def repeated(self, depth: int) -> Part:
        pattern, sample = self.atom(depth)
        if self.rng.random() < 0.6:
            return pattern, sample
        low = self.rng.choice((0, 1, 1, 2, 3))
        high = low + self.rng.choice((0, 1, 3))
        written = self.rng.choice(
            (b"*", b"+", b"?", b"{%d}" % max(1, low), b"{%d,%d}" % (low, high), b"{%d,}" % low)
        )
        lazy = self.rng.choice((b"", b"", b"", b"?", b"+"))
        if pattern.startswith((b"^", b"$", b"\\b", b"\\B", b"\\A", b"\\Z", b"(?=", b"(?!", b"(?<=", b"(?<!")):
            return pattern, sample
        return pattern + written + lazy, lambda: b"".join(
            sample()
            for _ in range(self.rng.randint(0 if written[:1] in b"*?" else max(1, low), max(1, high)))
        )

    def atom(self, depth: int) -> Part:
        kind = self.rng.random()
        if kind < 0.3:
            word = self.rng.choice(WORDS)
            return b"(?:" + re.escape(word) + b")", lambda: word
        if kind < 0.4:
            letter = bytes([self.rng.choice(LETTERS)])
            return re.escape(letter), lambda: letter
        if kind < 0.65:
            written = self.rng.choice(CLASSES)
            members = [bytes([byte]) for byte in range(128) if re.match(written, bytes([byte]))]
            return written, lambda: self.rng.choice(members)
        if kind < 0.75 or depth == 0:
            return self.rng.choice((rb"\b", rb"^", rb"$", rb"\B", rb"\A", rb"\Z")), lambda: b""
        if kind < 0.8:
            inner, _ = self.repeated(0)
            return self.rng.choice((b"(?=", b"(?!", b"(?<=", b"(?<!")) + inner + b")", lambda: b""
        if kind < 0.83 and self.groups:
            return b"(?:\\%d)" % self.rng.randint(1, self.groups), lambda: b""
        if kind < 0.92:
            options = [self.sequence(depth - 1) for _ in range(self.rng.choice((2, 2, 3)))]
            opening = self.rng.choice((b"(?:", b"(?i:", b"(?s:"))
            return opening + b"|".join(part for part, _ in options) + b")", lambda: self.rng.choice(options)[
                1
            ]()
        pattern, sample = self.sequence(depth - 1)
        self.groups += 1
        return b"(" + pattern + b")", sample

    def text(self, samples: list[Sampler], size: int) -> bytes:
        """Matches, what is nearly a match, and other bytes."""
        parts: list[bytes] = []
        while sum(map(len, parts)) < size:
            part = self.rng.choice(samples)() if samples else b""
            if part and self.rng.random() < 0.3:
                at = self.rng.randrange(len(part))
                part = part[:at] + bytes([self.rng.choice(LETTERS)]) + part[at + 1 :]
            parts.append(part)
            parts.append(bytes(self.rng.choices(LETTERS, k=self.rng.choice((0, 0, 1, 2, 8)))))
        return b"".join(parts)
