"""An editor without a screen: a client that talks to vyre-lsp over its stdin and stdout, as editors do."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient

__all__ = ["Editor", "positions", "server_command"]

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds after which a server that has not answered counts as one that hangs."""


def server_command() -> list[str]:
    """What starts the server, with the Python that runs the tests."""
    return [sys.executable, "-c", "from vyre_opt.cli.lsp import main; raise SystemExit(main([]))"]


class Editor:
    """Opens, edits and asks; each call waits for its answer.  A context manager, which ends the server."""

    def __init__(
        self,
        command: Sequence[str] | None = None,
        encodings: Sequence[types.PositionEncodingKind] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command or server_command())
        self.env = env
        self.encodings = list(encodings)
        self.versions: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.logged: list[str] = []
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.client = LanguageClient("editor", "1")
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self._publish(params))
        self.client.feature(types.WINDOW_LOG_MESSAGE)(lambda params: self.logged.append(params.message))
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.logged.append(params.message))

    def __enter__(self) -> Editor:
        self._thread.start()
        self.wait(self.client.start_io(*self.command, env=self.env))
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(position_encodings=list(self.encodings))
            if self.encodings
            else None
        )
        params = types.InitializeParams(capabilities=capabilities, process_id=None)
        self.initialized = self.wait(self.client.initialize_async(params))
        self.client.initialized(types.InitializedParams())
        return self

    def __exit__(self, *exception: object) -> None:
        self.wait(self.client.shutdown_async(None))
        self.client.exit(None)
        self.wait(self.client.stop())  # type: ignore[no-untyped-call]
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self, answer: Coroutine[Any, Any, T]) -> T:
        """The answer; TimeoutError if there is none."""
        future = asyncio.run_coroutine_threadsafe(answer, self._loop)
        try:
            return future.result(PATIENCE)
        except FutureTimeout:
            raise TimeoutError("the server does not answer") from None

    def call(self, action: Any, *args: Any) -> None:
        """Do something that has no answer."""

        async def act() -> None:
            action(*args)

        self.wait(act())

    # --- texts ------------------------------------------------------------------------

    def open(self, text: str, uri: str = "file:///a.vyre") -> str:
        self.versions[uri], self.texts[uri] = 1, text
        item = types.TextDocumentItem(uri, "vyre", 1, text)
        self.call(self.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
        return uri

    def open_file(self, path: Path) -> str:
        return self.open(path.read_text(encoding="utf-8"), path.resolve().as_uri())

    def edit(self, uri: str, start: int, end: int, new: str) -> None:
        """Replace the characters from `start` to `end`, as an editor tells it."""
        text = self.texts[uri]
        range = types.Range(*positions(text, start, end))
        self.texts[uri] = text[:start] + new + text[end:]
        self._change(uri, types.TextDocumentContentChangePartial(range, new))

    def replace(self, uri: str, text: str) -> None:
        """Send a whole new text."""
        self.texts[uri] = text
        self._change(uri, types.TextDocumentContentChangeWholeDocument(text))

    def _change(self, uri: str, change: types.TextDocumentContentChangeEvent) -> None:
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.call(self.client.text_document_did_change, types.DidChangeTextDocumentParams(document, [change]))

    def close(self, uri: str) -> None:
        params = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
        self.call(self.client.text_document_did_close, params)

    # --- diagnostics ------------------------------------------------------------------

    def _publish(self, params: types.PublishDiagnosticsParams) -> None:
        with self._changed:
            self.published[params.uri] = params
            self._changed.notify_all()

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """Those of the newest text, as soon as the server has them."""
        version = self.versions[uri]

        def arrived() -> bool:
            return uri in self.published and self.published[uri].version == version

        with self._changed:
            if not self._changed.wait_for(arrived, PATIENCE):
                raise TimeoutError("the server sends no diagnostics")
            return list(self.published[uri].diagnostics)

    # --- requests ---------------------------------------------------------------------

    def at(self, uri: str, offset: int) -> dict[str, Any]:
        """The parameters of a request about a place in a text."""
        return {
            "text_document": types.TextDocumentIdentifier(uri),
            "position": positions(self.texts[uri], offset, offset)[0],
        }

    def edited(self, uri: str, edits: Sequence[Any]) -> str:
        """The text after edits that the server proposes."""
        text = self.texts[uri]
        spans = [(_offset(text, e.range.start), _offset(text, e.range.end), e.new_text) for e in edits]
        for start, end, new in sorted(spans, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def positions(text: str, start: int, end: int) -> tuple[types.Position, types.Position]:
    """Two offsets as positions in UTF-16; lines end in "\\n" alone here."""

    def position(offset: int) -> types.Position:
        before = text[:offset]
        line = before.rpartition("\n")[2]
        return types.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)

    return position(start), position(end)


def _offset(text: str, position: types.Position) -> int:
    lines = text.split("\n")
    start = sum(len(line) + 1 for line in lines[: position.line])
    units = lines[position.line].encode("utf-16-le")[: 2 * position.character]
    return start + len(units.decode("utf-16-le"))
