"""Mail, a log with web tokens, and a backup, with secrets planted in them: any size, the same for the same seed.

mail.mbox    messages: text; HTML as quoted-printable; text as base64; an attachment, as base64 in lines
access.log   requests, one a line, each with a JSON web token (RFC 7519): header.payload.signature in base64url
backup.b64   a file of settings, as base64 in lines of 76 characters (RFC 2045)

Each message, line and setting is drawn from the seed and its own number, so that a larger corpus begins as a smaller one.
Words are drawn as syllables, so that the bytes do not depend on what is installed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from bisect import bisect
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from functools import cached_property
from pathlib import Path
from random import Random

from .forms import FORMS, near_miss

__all__ = [
    "BACKUP",
    "LOG",
    "MAIL",
    "OTHER",
    "PLACES",
    "Corpus",
    "Planted",
    "payload_of",
    "place_of",
    "write_corpus",
]

MAIL, LOG, BACKUP = "mail.mbox", "access.log", "backup.b64"
SHARES = {MAIL: 0.7, LOG: 0.1, BACKUP: 0.2}
"""Of the size of all."""

PLACES = ("text", "quoted-printable", "base64", "attachment", "web token", "backup")
"""Where secrets are.  Of a web token, in its header or its payload."""

OTHER = "other"
"""Where none is."""

LINE = 57
"""Bytes that are a line of 76 characters."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A secret: the number of the message or of the line of `file` that holds it (of the backup, 0), and the number of its form."""

    place: str
    file: str
    document: int
    form: int
    content: str


@dataclass(frozen=True)
class Corpus:
    """Files of a folder.  `starts`: of each file, the offsets of its documents."""

    folder: Path
    planted: list[Planted]
    starts: dict[str, list[int]]

    def path(self, file: str) -> Path:
        return self.folder / file

    def at(self, file: str, offset: int, form: int, content: str) -> Planted:
        """What was found at an offset of a file, in the place where it was planted, or in the place OTHER."""
        document = bisect(self.starts[file], offset) - 1
        return Planted(self._places.get((file, document, content), OTHER), file, document, form, content)

    @cached_property
    def _places(self) -> dict[tuple[str, int, str], str]:
        return {(each.file, each.document, each.content): each.place for each in self.planted}


def write_corpus(folder: Path, size: int, seed: int) -> Corpus:
    """Write files of about `size` bytes together, planted.jsonl, the list of what is where, and forms.txt, the expressions.

    Raises OSError.
    """
    corpus = Corpus(folder, [], {})
    for name, documents in ((MAIL, _messages), (LOG, _requests), (BACKUP, _encoded_settings)):
        offsets, at = [], 0
        with (folder / name).open("wb") as file:
            for content, planted in documents(seed):
                offsets.append(at)
                at += file.write(content)
                corpus.planted.extend(planted)
                if at >= size * SHARES[name]:
                    break
        corpus.starts[name] = offsets if name != BACKUP else [0]
    lines = (json.dumps(asdict(planted)) + "\n" for planted in corpus.planted)
    corpus.path("planted.jsonl").write_text("".join(lines), encoding="utf-8")
    corpus.path("forms.txt").write_bytes(b"".join(form.expression + b"\n" for form in FORMS))
    return corpus


Document = tuple[bytes, list[Planted]]


# --- words, and secrets among them


def _words() -> list[str]:
    draw = Random("words")
    onsets, vowels = "b d f g k l m n p r s t v tr st pl".split(), "a e i o u ai ou".split()
    return sorted(
        {
            "".join(draw.choice(onsets) + draw.choice(vowels) for _ in range(draw.randint(1, 4)))
            for _ in range(4000)
        }
    )


WORDS = _words()
ACCENTED = [word.replace("ou", "où") for word in WORDS]


class _Text:
    """Draws text for one document, and notes the secrets in it."""

    def __init__(self, seed: int, file: str, number: int, document: int) -> None:
        self.draw = Random(f"{seed} {file} {number}")
        self.file, self.document = file, document
        self.planted: list[Planted] = []

    def secret(self, place: str, most_often: float = 0.5) -> str:
        """A secret, a near miss, or nothing."""
        chance = self.draw.random()
        if chance < most_often:
            form = self.draw.randrange(len(FORMS))
            content = FORMS[form].draw(self.draw)
            self.planted.append(Planted(place, self.file, self.document, form, content))
            return content
        return near_miss(self.draw) if chance < most_often + 0.2 else ""

    def prose(self, place: str, words: list[str], count: int, line: int) -> str:
        """`count` of the words, in lines of so many, with at most one secret between them."""
        text = self.draw.choices(words, k=count)
        text.insert(self.draw.randint(0, count), self.secret(place))
        return "\n".join(" ".join(text[at : at + line]) for at in range(0, len(text), line)) + "\n"


# --- mail


def _messages(seed: int) -> Iterator[Document]:
    number = 0
    while True:
        text = _Text(seed, MAIL, number, number)
        message = _message(text, number)
        yield b"From generator@example.com Thu Jan  1 00:00:00 2026\n" + message + b"\n", text.planted
        number += 1


def _message(text: _Text, number: int) -> bytes:
    draw = text.draw
    message = EmailMessage()
    message["From"] = "generator@example.com"
    message["To"] = "reader@example.com"
    message["Subject"] = f"{draw.choice(WORDS)} {draw.choice(WORDS)} {number}"
    message["Message-ID"] = f"<{number}@example.com>"
    message.set_content(text.prose("text", WORDS, draw.randint(50, 400), 9), cte="7bit")
    paragraphs = text.prose("quoted-printable", ACCENTED, draw.randint(50, 400), 60)
    message.add_alternative(f"<p>{paragraphs}</p>\n", subtype="html", cte="quoted-printable")
    letter = text.prose("base64", WORDS, draw.randint(50, 800), 12)
    message.add_attachment(letter, filename=f"letter{number}.txt", cte="base64")
    # a secret between random bytes, at each of the three places that a group of base64 has
    before, behind = draw.randbytes(draw.randint(0, 20_000)), draw.randbytes(draw.randint(0, 20_000))
    attachment = before + text.secret("attachment").encode() + behind
    message.add_attachment(attachment, maintype="application", subtype="octet-stream", filename="dump")
    for depth, part in enumerate(part for part in message.walk() if part.is_multipart()):
        part.set_boundary(f"=={number}=={depth}==")  # which is drawn by nobody's seed otherwise
    return message.as_bytes()


def place_of(part: EmailMessage) -> str:
    """Which of PLACES a part of a message is."""
    if part.get_filename() == "dump":
        return "attachment"
    encoding = str(part["Content-Transfer-Encoding"])
    return "text" if encoding == "7bit" else encoding


def payload_of(part: EmailMessage) -> bytes:
    """The decoded bytes of a part."""
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload


# --- web tokens


def _requests(seed: int) -> Iterator[Document]:
    number = 0
    while True:
        text = _Text(seed, LOG, number, number)
        token = _web_token(text)
        path = "/".join(text.draw.choices(WORDS, k=3))
        line = f"10.0.{number >> 8 & 255}.{number & 255} GET /{path}?jwt={token} {text.draw.choice((200, 403))}\n"
        yield line.encode(), text.planted
        number += 1


def _web_token(text: _Text) -> str:
    header = {"alg": "HS256", "kid": text.secret("web token", 0.1)}
    payload = {"sub": " ".join(text.draw.choices(WORDS, k=6)), "note": text.secret("web token", 0.2)}
    signed = b".".join(_url_safe(json.dumps(part).encode()) for part in (header, payload))
    signature = hmac.digest(text.draw.randbytes(32), signed, hashlib.sha256)
    return (signed + b"." + _url_safe(signature)).decode()


def _url_safe(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


# --- the backup


def _encoded_settings(seed: int) -> Iterator[Document]:
    number = 0
    while True:
        text = _Text(seed, BACKUP, number, 0)
        settings = text.prose("backup", WORDS, 600, 10).encode()
        # whole lines, so that the text has no padding before its end
        yield base64.encodebytes(settings + b"\n" * (-len(settings) % LINE)), text.planted
        number += 1
