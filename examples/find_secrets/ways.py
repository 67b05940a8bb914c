"""Every way that vyre-opt has to search a corpus, a row each.

A way searches files of a corpus, and gives what it found, in how many bytes, and in how many seconds.  Its row says
what it must find: the secrets that stand in the bytes of files as they are, and those in places that it decodes.
"""

from __future__ import annotations

import base64
import email
import json
import mailbox
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email import policy

from vyre_opt import Scanner

from .corpus import BACKUP, LOG, MAIL, PLACES, Corpus, Planted, payload_of, place_of
from .forms import EXPRESSIONS

__all__ = ["VYRE_SCAN", "WAYS", "Search", "Way"]

CHUNK = 1 << 16
VYRE_SCAN = [sys.executable, "-c", "from vyre_scan.start import main; raise SystemExit(main())"]
"""The command `vyre-scan` of this Python, wherever that is installed."""


@dataclass(frozen=True, slots=True)
class Search:
    found: Counter[Planted]
    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Way:
    """`as_written`: the files in which it finds what stands there; `decoded`: the places that it decodes."""

    name: str
    run: Callable[[Corpus], Search]
    as_written: tuple[str, ...] = ()
    decoded: tuple[str, ...] = ()

    def expected(self, as_written: Counter[Planted], in_parts: Counter[Planted]) -> Counter[Planted]:
        """Of what independent_check finds, what this way must."""
        return Counter(
            {each: count for each, count in as_written.items() if each.file in self.as_written}
        ) + Counter({each: count for each, count in in_parts.items() if each.place in self.decoded})


def _scanner(encoding: str | None = None) -> Scanner:
    return Scanner(EXPRESSIONS, encoding, strict=False)


# --- the parts of messages and tokens, each on its own

Part = tuple[str, str, int, str | None, bytes]
"""Place, file, number of the document, how Scanner is to decode the text, and the text."""


def _in_parts(corpus: Corpus) -> Search:
    parts = [*_parts(corpus)]
    scanners = {encoding: _scanner(encoding) for encoding in (None, "base64", "base64url")}
    for scanner in scanners.values():
        scanner.scan(b"bWFpbA")  # loads the compiled programs
    begun = time.perf_counter()
    matches = [scanners[encoding].scan(text) for _, _, _, encoding, text in parts]
    seconds = time.perf_counter() - begun
    found: Counter[Planted] = Counter()
    for (place, file, document, encoding, text), own in zip(parts, matches, strict=True):
        content = _decoded(text, encoding) if len(own) else b""
        for start, end, form in own:
            found[Planted(place, file, document, form, content[start:end].decode())] += 1
    return Search(found, sum(len(part[-1]) for part in parts), seconds)


def _parts(corpus: Corpus) -> Iterator[Part]:
    mails = mailbox.mbox(corpus.path(MAIL), create=False)
    for number, key in enumerate(mails.iterkeys()):
        message = email.message_from_bytes(mails.get_bytes(key), policy=policy.default)
        for part in message.walk():
            if not part.is_multipart():
                # Scanner decodes base64 itself; quoted-printable it does not know
                is_base64 = part["Content-Transfer-Encoding"] == "base64"
                text = str(part.get_payload()).encode() if is_base64 else payload_of(part)
                yield place_of(part), MAIL, number, "base64" if is_base64 else None, text
    mails.close()
    for number, line in enumerate(corpus.path(LOG).read_bytes().splitlines()):
        for encoded in re.findall(rb"(?<=[=.])[\w-]+(?=\.)", line.partition(b"?jwt")[2]):
            yield "web token", LOG, number, "base64url", encoded
    yield "backup", BACKUP, 0, "base64", corpus.path(BACKUP).read_bytes()


def _decoded(text: bytes, encoding: str | None) -> bytes:
    if encoding is None:
        return text
    return base64.b64decode(text) if encoding == "base64" else base64.urlsafe_b64decode(text + b"==")


# --- whole files, in chunks


def _in_chunks(corpus: Corpus) -> Search:
    found: Counter[Planted] = Counter()
    size, seconds = 0, 0.0
    for file, encoding in ((MAIL, None), (LOG, None), (BACKUP, "base64")):
        scanner, content = _scanner(encoding), corpus.path(file).read_bytes()
        chunks = (content[at : at + CHUNK] for at in range(0, len(content), CHUNK))
        begun = time.perf_counter()
        matches = scanner.scan_stream(chunks)
        seconds += time.perf_counter() - begun
        size += len(content)
        searched = _decoded(content, encoding)
        for start, end, form in matches:
            offset = 0 if encoding else start  # the backup is one document
            found[corpus.at(file, offset, form, searched[start:end].decode())] += 1
    return Search(found, size, seconds)


# --- the tool


def _by_vyre_scan(files: tuple[str, ...], *options: str) -> Callable[[Corpus], Search]:
    def search(corpus: Corpus) -> Search:
        paths = [str(corpus.path(file)) for file in files]
        command = [*VYRE_SCAN, *options, "--json", "-E", "-f", str(corpus.path("forms.txt")), *paths]
        begun = time.perf_counter()
        ran = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        seconds = time.perf_counter() - begun
        if ran.returncode == 2:
            raise RuntimeError(f"{' '.join(command)}: exit code 2")
        rows = map(json.loads, ran.stdout.splitlines())
        found = Counter(
            corpus.at(files[paths.index(row["path"])], row["start"], row["number"], row["match"])
            for row in rows
        )
        return Search(found, sum(corpus.path(file).stat().st_size for file in files), seconds)

    return search


BASE64_PLACES = ("base64", "attachment", "web token", "backup")
FILES = (MAIL, LOG, BACKUP)

WAYS = (
    Way("Scanner, parts", _in_parts, decoded=PLACES),
    Way("scan_stream", _in_chunks, as_written=(MAIL, LOG), decoded=("backup",)),
    Way("vyre-scan", _by_vyre_scan(FILES), as_written=FILES),
    Way("vyre-scan --only-blobs", _by_vyre_scan(FILES, "--only-blobs"), decoded=BASE64_PLACES),
    Way("vyre-scan --decode base64", _by_vyre_scan((BACKUP,), "--decode", "base64"), decoded=("backup",)),
)
"""Mail in quoted-printable is decoded by no way but the first, for which Python's email does it."""
