"""The texts that a client has open, and their analyses, made in a thread beside the one that answers requests.

A text is analysed as soon as it changes.  An analysis of a text that has changed again is given up, and until there is a
new one, requests are answered from the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from urllib.parse import unquote, urlparse

from lsprotocol import types

from .analysis import Analyzer, DocumentAnalysis, Stale
from .positions import LineIndex

__all__ = ["Document"]


class Document:
    """An open text: `lines` are the newest, `analysis` may be of an older one; None before there is any."""

    def __init__(self, uri: str, text: str, version: int, encoding: types.PositionEncodingKind) -> None:
        self.uri = uri
        self.version = version
        self.lines = LineIndex(text, encoding)
        self.analysis: DocumentAnalysis | None = None
        self.is_open = True
        self._analyzer = Analyzer(unquote(urlparse(uri).path) or uri)
        self._task: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        return self.lines.text

    def change(self, changes: Sequence[types.TextDocumentContentChangeEvent], version: int) -> None:
        for change in changes:
            self.lines = self.lines.edited(change)
        self.version = version

    def close(self) -> None:
        self.is_open = False

    def analyze(self, worker: Executor, publish: Callable[[Document], None]) -> None:
        """See that the newest text is analysed; `publish` is called when it is."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._analyze(worker, publish))

    async def _analyze(self, worker: Executor, publish: Callable[[Document], None]) -> None:
        while self.is_open and (self.analysis is None or self.analysis.text != self.text):
            lines = self.lines

            def is_stale(analyzed: LineIndex = lines) -> bool:
                return self.lines is not analyzed or not self.is_open

            try:
                loop = asyncio.get_running_loop()
                self.analysis = await loop.run_in_executor(
                    worker, self._analyzer.analyze, lines.text, is_stale
                )
            except Stale:
                continue
        if self.is_open:
            publish(self)

    async def analyzed(self) -> DocumentAnalysis | None:
        """The last analysis; the first one is waited for."""
        if self.analysis is None and self._task is not None:
            await asyncio.wait([self._task])
        return self.analysis

    async def current(self) -> DocumentAnalysis | None:
        """The analysis of the newest text; None if that changes while it is waited for."""
        text = self.text
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
        return (
            self.analysis if self.analysis is not None and self.analysis.text == text == self.text else None
        )
