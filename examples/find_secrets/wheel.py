"""A word list searched in every file of a wheel, as it is and as base64, beside a search in plain Python."""

from __future__ import annotations

import base64
import pydoc_data.topics
import re
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import vyre_opt
from vyre_opt import Scanner

__all__ = ["WheelSearch", "files_of_wheel", "search_wheel", "word_list", "words_within"]

SHORTEST, LONGEST = 6, 16

Files = dict[str, bytes]


def files_of_wheel(wheel: Path | None) -> Files:
    """Contents by name: of a wheel, or of the package that is imported, which is a wheel without its metadata.

    Raises OSError, and zipfile.BadZipFile for what is no wheel.
    """
    if wheel is not None:
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(name) for name in sorted(archive.namelist()) if name[-1] != "/"}
    package = Path(vyre_opt.__file__).parent
    paths = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(package.parent)): path.read_bytes() for path in paths}


def word_list() -> list[bytes]:
    """The words of 6 to 16 letters in Python's own manual, which every installation has; in lower case, sorted."""
    text = " ".join(pydoc_data.topics.topics.values()).lower()
    return sorted(
        word.encode() for word in set(re.findall(r"[a-z]+", text)) if SHORTEST <= len(word) <= LONGEST
    )


def words_within(content: bytes, words: list[bytes]) -> list[tuple[int, int, int]]:
    """Starts, ends and numbers of all words in either case, overlapping ones too, by slices and a dictionary."""
    return sorted(_words_at_each_place(content.lower(), words), key=lambda match: (match[1], match[2]))


def _words_at_each_place(content: bytes, words: list[bytes]) -> Iterator[tuple[int, int, int]]:
    numbers = {word: number for number, word in enumerate(words)}
    heads = {word[:SHORTEST] for word in words}
    for start in range(len(content)):
        if content[start : start + SHORTEST] in heads:
            for end in range(start + SHORTEST, min(start + LONGEST, len(content)) + 1):
                number = numbers.get(content[start:end])
                if number is not None:
                    yield start, end, number


@dataclass(frozen=True, slots=True)
class WheelSearch:
    """`counts`: how often each word was found.  `differing`: files in which a search found anything else."""

    files: int
    size: int
    counts: Counter[bytes]
    seconds: float
    encoded_seconds: float
    differing: list[str]


def search_wheel(files: Files, words: list[bytes]) -> WheelSearch:
    """Search each file for the words, as it is, and encoded in lines of 76 characters, as mail would carry it."""
    plain, encoded = Scanner(words, caseless=True), Scanner(words, "base64", caseless=True, strict=False)
    texts = {name: base64.encodebytes(content) for name, content in files.items()}
    begun = time.perf_counter()
    found = {name: plain.scan(content) for name, content in files.items()}
    middle = time.perf_counter()
    found_encoded = {name: encoded.scan(text) for name, text in texts.items()}
    end = time.perf_counter()
    expected = {name: words_within(content, words) for name, content in files.items()}
    return WheelSearch(
        len(files),
        sum(map(len, files.values())),
        Counter(words[number] for matches in expected.values() for _, _, number in matches),
        middle - begun,
        end - middle,
        [name for name in files if not [*found[name]] == [*found_encoded[name]] == expected[name]],
    )
