"""The secrets of a corpus by Python's own modules: mailbox and email take mail apart, base64 decodes, re searches.

Nothing of vyre-opt is used here, so what it finds can be held against this.
"""

from __future__ import annotations

import base64
import email
import mailbox
import re
from collections import Counter
from collections.abc import Iterator
from email import policy

from .corpus import BACKUP, LOG, MAIL, Corpus, Planted, payload_of, place_of
from .forms import EXPRESSIONS

__all__ = ["decoded_parts", "secrets_as_written", "secrets_in_parts", "secrets_within"]

_TOKEN = re.compile(rb"jwt=([\w-]+)\.([\w-]+)\.")

Part = tuple[str, str, int, bytes]
"""Place, file, number of the document, and decoded bytes."""


def decoded_parts(corpus: Corpus) -> Iterator[Part]:
    """All that may hold a secret, decoded."""
    mails = mailbox.mbox(corpus.path(MAIL), create=False)
    for number, key in enumerate(mails.iterkeys()):
        message = email.message_from_bytes(mails.get_bytes(key), policy=policy.default)
        for part in message.walk():
            if not part.is_multipart():
                yield place_of(part), MAIL, number, payload_of(part)
    mails.close()
    with corpus.path(LOG).open("rb") as lines:
        for number, line in enumerate(lines):
            token = _TOKEN.search(line)
            assert token is not None
            for encoded in token.groups():
                yield "web token", LOG, number, base64.urlsafe_b64decode(encoded + b"==")
    yield "backup", BACKUP, 0, base64.b64decode(corpus.path(BACKUP).read_bytes())


def secrets_within(content: bytes) -> list[tuple[int, bytes]]:
    """The number of the form and the bytes of each secret."""
    return [(form, m[0]) for form, expression in enumerate(EXPRESSIONS) for m in expression.finditer(content)]


def secrets_in_parts(corpus: Corpus) -> Counter[Planted]:
    """What decoded parts hold."""
    return Counter(
        Planted(place, file, document, form, secret.decode())
        for place, file, document, content in decoded_parts(corpus)
        for form, secret in secrets_within(content)
    )


def secrets_as_written(corpus: Corpus) -> Counter[Planted]:
    """What is in the bytes of the files, where nothing is decoded.  Quoted-printable may leave a secret whole or not."""
    found: Counter[Planted] = Counter()
    for file in corpus.starts:
        content = corpus.path(file).read_bytes()
        for form, expression in enumerate(EXPRESSIONS):
            for match in expression.finditer(content):
                found[corpus.at(file, match.start(), form, match[0].decode())] += 1
    return found
