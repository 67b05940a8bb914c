"""What a client writes to the language server: headers, JSON, and requests in it."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

from vyre_opt.lsp.framing import NoHeader, messages
from vyre_opt.lsp.server import serve

from .byte_mutations import BYTES, mutate
from .target import Target, Wrong
from .text_mutations import ALL_EDITS
from .text_mutations import mutate as mutate_text

__all__ = ["LSP"]

MOST = 1 << 16
URI = {"uri": "file:///a.vyre"}
TEXT = "vyre 1\nprogram @p workgroup(1) {\n  %i = global_id x\n}\n"
AT = {"textDocument": URI, "position": {"line": 2, "character": 3}}
SPAN = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 5}}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("textDocument/definition", AT),
    ("textDocument/references", {**AT, "context": {"includeDeclaration": True}}),
    ("textDocument/rename", {**AT, "newName": "%j"}),
    ("textDocument/completion", AT),
    ("textDocument/hover", AT),
    ("textDocument/codeAction", {"textDocument": URI, "range": SPAN, "context": {"diagnostics": []}}),
    ("textDocument/documentSymbol", {"textDocument": URI}),
    ("shutdown", {}),
)
CHANGE = {"textDocument": {**URI, "version": 2}, "contentChanges": [{"range": SPAN, "text": "%k"}]}


def _framed(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def _seeds() -> list[bytes]:
    """A session each: the text is opened, a request, a change, and the request again."""
    capabilities: dict[str, Any] = {"capabilities": {}, "processId": None, "rootUri": None}
    start = _framed({"id": 0, "method": "initialize", "params": capabilities})
    opened = {"textDocument": {**URI, "languageId": "vyre", "version": 1, "text": TEXT}}
    start += _framed({"method": "textDocument/didOpen", "params": opened})
    change = _framed({"method": "textDocument/didChange", "params": CHANGE})
    requests = (_framed({"id": 1, "method": name, "params": params}) for name, params in REQUESTS)
    return [start + request + change + request for request in requests]


def _mutate(case: bytes, other: bytes, rng: random.Random) -> bytes:
    """Bytes of the stream, or the JSON of each message, whose length then is right again."""
    if rng.random() < 0.3:
        return mutate(case, other, rng, BYTES)
    stream = io.BytesIO(case)
    try:
        bodies = [body or b"" for body in messages(lambda size: stream.read(size), MOST)]
    except NoHeader:
        return mutate(case, other, rng, BYTES)
    changed = rng.randrange(len(bodies)) if bodies else 0
    result = b""
    for number, body in enumerate(bodies):
        if number == changed:
            text = mutate_text(body.decode("latin1"), other[:200].decode("latin1"), rng, ALL_EDITS)
            body = text.encode("latin1", "replace")
        result += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    return result


def _run(case: bytes) -> str:
    """A session that ends by itself; each answer is a message."""
    path = Path("case.lsp")
    path.write_bytes(case)
    written = io.BytesIO()
    try:
        with path.open("rb") as stdin:
            code = serve(stdin.fileno(), written, MOST)
    except NoHeader:
        return "refused: no header"
    if code not in (0, 1):
        raise Wrong(f"exit code {code}")
    refused = 0
    for answer in messages(io.BytesIO(written.getvalue()).read, MOST):
        content = json.loads(answer or b"null")
        if not isinstance(content, dict) or not content.keys() & {"method", "result", "error"}:
            raise Wrong("an answer that is no message")
        refused += "error" in content
    return f"refused: {refused}" if refused else "answered"


LSP = Target(
    "lsp", ".lsp", "what a client writes to vyre-lsp", _seeds, _mutate, _run, batch=1000, is_text=False
)
