"""The language server: what a client asks, and which part of this package answers."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
from contextlib import suppress
from threading import Thread
from typing import Any, BinaryIO, Protocol

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from .. import __version__
from ..syntax.parser.messages import warm_up
from .completion import Completion, completions
from .daemon_executor import DaemonExecutor
from .documents import Document
from .formatting import formatted
from .framing import messages
from .hover import hover
from .navigation import Name, RenameError, name_at, places, rename
from .outline import document_symbols, folding_ranges
from .problems import code_actions, diagnostics
from .text_parts import Span

__all__ = ["serve"]

_REQUEST_FAILED = -32803
_KINDS = {
    "op": types.CompletionItemKind.Function,
    "kernel": types.CompletionItemKind.Module,
    "value": types.CompletionItemKind.Variable,
    "symbol": types.CompletionItemKind.Reference,
    "type": types.CompletionItemKind.TypeParameter,
    "keyword": types.CompletionItemKind.Keyword,
    "word": types.CompletionItemKind.EnumMember,
}


class _AtPosition(Protocol):
    text_document: types.TextDocumentIdentifier
    position: types.Position


class _Protocol(LanguageServerProtocol):
    """Leaves the texts to `Document`: that of the library takes other characters for line ends than the protocol does."""

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Any:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class _Server(LanguageServer):
    def __init__(self) -> None:
        super().__init__(
            "vyre-lsp",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=_Protocol,
        )
        self.documents: dict[str, Document] = {}
        # one thread, so that the analysis of one text is not the reason that another's is late
        self.worker = DaemonExecutor("analysis")
        self.slow_worker = DaemonExecutor("passes")

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Write to the log alone: the answer says the mistake of a request."""
        logging.getLogger(__name__).error("%s", error)

    async def take(self, raw: bytes | None, most: int) -> None:
        """Handle a message; None is one that has more than `most` bytes.  A request has an answer, whatever is wrong."""
        content: Any = None
        try:
            if raw is None:
                raise JsonRpcInvalidRequest(f"a message has more than {most} bytes; --max-input allows more")
            try:
                content = json.loads(raw)
            except (ValueError, RecursionError) as error:
                raise JsonRpcParseError.of(error) from None
            message = self._message(content)
        except JsonRpcException as error:
            is_notification = isinstance(content, dict) and "method" in content and "id" not in content
            if not is_notification:
                number: Any = _id_of(content)
                self.protocol._send_response(number, error=error.to_response_error())
            self._report_server_error(error, JsonRpcException)
            return
        try:
            self.protocol.handle_message(message)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # of a notification; those of requests are in their answers
            self._report_server_error(error, JsonRpcException)

    def _message(self, content: Any) -> Any:
        """The message of JSON.  Raises JsonRpcException."""
        if not isinstance(content, dict) or content.get("jsonrpc") != self.protocol.VERSION:
            raise JsonRpcInvalidRequest(f"a message is an object with jsonrpc {self.protocol.VERSION}")
        if not isinstance(content.get("method", ""), str):
            raise JsonRpcInvalidRequest("a method is a string")
        if "id" in content and _id_of(content) is None:
            raise JsonRpcInvalidRequest("an id is a number or a string")
        if self.protocol._shutdown and content.get("method") != types.EXIT:
            raise JsonRpcInvalidRequest("the server has been shut down")
        try:
            return self.protocol.structure_message({"params": None, **content})
        except JsonRpcException as error:
            cause = error.__cause__ or error
            raise JsonRpcInvalidParams.of("; ".join(transform_error(cause))) from None

    def check(self, document: Document) -> None:
        document.analyze(self.worker, self.publish)

    def publish(self, document: Document) -> None:
        if document.analysis is None or document.analysis.text != document.text:
            return
        shown = diagnostics(document.analysis, document.lines, document.uri)
        params = types.PublishDiagnosticsParams(document.uri, shown, document.version)
        self.text_document_publish_diagnostics(params)


class _Writer:
    """Writes answers to stdout; where that fails, `failure` is the error, and the server is to end."""

    def __init__(self, stdout: BinaryIO, ended: asyncio.Future[None]) -> None:
        self.stdout, self.ended = stdout, ended

    def write(self, data: bytes) -> None:
        try:
            self.stdout.write(data)
            self.stdout.flush()
        except OSError as error:
            if not self.ended.done():
                self.ended.set_exception(OSError(error.errno, error.strerror, "stdout"))

    def close(self) -> None:
        """Nothing: the stream is the process's."""


def _id_of(content: Any) -> str | int | None:
    """The id of a message, if it has one."""
    number = content.get("id") if isinstance(content, dict) else None
    return number if isinstance(number, (str, int)) and not isinstance(number, bool) else None


def serve(stdin: int, stdout: BinaryIO, most: int) -> int:
    """Answer on stdin, a descriptor, and stdout until the client says exit, or closes stdin; returns the exit code.

    `most`: bytes of a message.  Raises NoHeader, and OSError where a stream fails.
    """
    # in the log of editors; what is wrong with a request is in its answer
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    # Analyses are large and live long: to look through all of them again and again costs more than it frees.
    gc.enable()
    gc.set_threshold(20_000, 20, 200)
    server = _Server()
    _add_synchronization(server)
    _add_navigation(server)
    _add_editing(server)
    _add_reading(server)
    try:
        asyncio.run(_serve(server, stdin, stdout, most))
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        server.worker.shutdown()
        server.slow_worker.shutdown()
    return 0


async def _serve(server: _Server, stdin: int, stdout: BinaryIO, most: int) -> None:
    """Handle messages to the end of stdin."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    # the thread's own, since it may read once more when the caller has closed its descriptor, and another file has the number
    source = os.dup(stdin)
    server.protocol.set_writer(_Writer(stdout, ended))

    def end(error: Exception | None) -> None:
        if not ended.done():
            ended.set_result(None) if error is None else ended.set_exception(error)

    def read() -> None:
        """Take one message after the other, each when the one before has been handled."""
        failure: Exception | None = None
        try:
            for raw in messages(lambda size: os.read(source, size), most):
                asyncio.run_coroutine_threadsafe(server.take(raw, most), loop).result()
        except Exception as error:
            failure = error
        os.close(source)
        with suppress(RuntimeError):  # the loop has ended, by a signal
            loop.call_soon_threadsafe(end, failure)

    # not by a reader of the library's or of Python's: they wait in a thread for which the end of the process would wait
    Thread(target=read, name="stdin", daemon=True).start()
    await ended


def _add_synchronization(server: _Server) -> None:
    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        server.worker.submit(warm_up)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        opened = params.text_document
        encoding = server.workspace.position_encoding or types.PositionEncodingKind.Utf16
        document = Document(opened.uri, opened.text, opened.version, types.PositionEncodingKind(encoding))
        server.documents[opened.uri] = document
        server.check(document)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        document = server.documents.get(params.text_document.uri)
        if document is not None:
            document.change(params.content_changes, params.text_document.version)
            server.check(document)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        document = server.documents.pop(params.text_document.uri, None)
        if document is not None:
            document.close()
            server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, []))


def _add_navigation(server: _Server) -> None:
    def named(params: _AtPosition) -> tuple[Document, Name] | None:
        document = server.documents.get(params.text_document.uri)
        name = document and name_at(document.text, document.lines.offset(params.position))
        return (document, name) if document and name else None

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> list[types.Location] | None:
        at = named(params)
        return at and [types.Location(at[0].uri, at[0].lines.range(s)) for s in at[1].definitions]

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(params: types.ReferenceParams) -> list[types.Location] | None:
        at = named(params)
        if at is None:
            return None
        document, name = at
        spans = places(name, params.context.include_declaration)
        return [types.Location(document.uri, document.lines.range(span)) for span in spans]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlight(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight] | None:
        at = named(params)
        if at is None:
            return None
        document, name = at
        kinds = dict.fromkeys(name.definitions, types.DocumentHighlightKind.Write)
        return [
            types.DocumentHighlight(
                document.lines.range(span), kinds.get(span, types.DocumentHighlightKind.Read)
            )
            for span in places(name)
        ]

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare_rename(params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
        at = named(params)
        if at is None or not at[1].definitions:
            return None
        return types.PrepareRenamePlaceholder(at[0].lines.range(at[1].span), at[1].text)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def rename_name(params: types.RenameParams) -> types.WorkspaceEdit | None:
        at = named(params)
        if at is None:
            raise JsonRpcException("there is no name here", _REQUEST_FAILED)
        document, name = at
        try:
            edits = rename(document.text, name, params.new_name)
        except RenameError as error:
            raise JsonRpcException(str(error), _REQUEST_FAILED) from None
        return types.WorkspaceEdit(
            {document.uri: [types.TextEdit(document.lines.range(span), text) for span, text in edits]}
        )


def _add_editing(server: _Server) -> None:
    triggers = types.CompletionOptions(trigger_characters=["%", "@", "=", ":", "<", "(", "[", " "])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, triggers)
    async def complete(params: types.CompletionParams) -> types.CompletionList | None:
        document = server.documents.get(params.text_document.uri)
        if document is None:
            return None
        lines = document.lines
        analysis = await document.analyzed()
        word, items = completions(lines.text, analysis, lines.offset(params.position))
        place = lines.range(word)
        return types.CompletionList(False, [_completion_item(item, place) for item in items])

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    async def format_document(params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        document = server.documents.get(params.text_document.uri)
        analysis = await document.current() if document is not None else None
        if document is None or analysis is None:
            return None
        lines, new = document.lines, formatted(document.text, analysis.broken)
        return [types.TextEdit(lines.range(span), text) for span, text in _changes(document.text, new)]

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    )
    async def actions(params: types.CodeActionParams) -> list[types.CodeAction] | None:
        document = server.documents.get(params.text_document.uri)
        analysis = await document.current() if document is not None else None
        if document is None or analysis is None:
            return None
        return list(code_actions(analysis, document.lines, document.uri, params.range))


def _completion_item(item: Completion, place: types.Range) -> types.CompletionItem:
    markdown = types.MarkupContent(types.MarkupKind.Markdown, item.documentation)
    return types.CompletionItem(
        label=item.label,
        kind=_KINDS[item.kind],
        detail=item.detail or None,
        documentation=markdown if item.documentation else None,
        sort_text=f"{item.rank:03}{item.label}",
        filter_text=item.label,
        text_edit=types.TextEdit(place, item.label),
    )


def _changes(old: str, new: str) -> list[tuple[Span, str]]:
    """The part of a text that is another, so that the cursor of the editor stays where it can."""
    if old == new:
        return []
    most = min(len(old), len(new))
    start = next((n for n in range(most) if old[n] != new[n]), most)
    end = next((n for n in range(most - start) if old[-1 - n] != new[-1 - n]), most - start)
    return [(Span(start, len(old) - end), new[start : len(new) - end])]


def _add_reading(server: _Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def show(params: types.HoverParams) -> types.Hover | None:
        document = server.documents.get(params.text_document.uri)
        analysis = await document.analyzed() if document is not None else None
        if document is None or analysis is None or analysis.text != document.text:
            analysis = await document.current() if document is not None else None
        if document is None or analysis is None:
            return None
        lines = document.lines
        # passes may take their time, and requests go on meanwhile
        run = asyncio.get_running_loop().run_in_executor
        shown = await run(server.slow_worker, hover, analysis, lines.offset(params.position))
        if shown is None:
            return None
        text, span = shown
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), lines.range(span))

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol] | None:
        document = server.documents.get(params.text_document.uri)
        return list(document_symbols(document.lines)) if document else None

    @server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
    def folds(params: types.FoldingRangeParams) -> list[types.FoldingRange] | None:
        document = server.documents.get(params.text_document.uri)
        return list(folding_ranges(document.lines)) if document else None
