"""The server as an editor meets it: a process, spoken to over its stdin and stdout."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from frontend_inputs import straight_vyre
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from support.half_typed import half_typed
from support.lsp_client import Editor, server_command
from support.quick import quick

from vyre_opt import parse
from vyre_opt.cli import lsp
from vyre_opt.cli.errors import ToolError
from vyre_opt.lsp.framing import NoHeader
from vyre_opt.lsp.server import serve

from .conftest import EXAMPLES

PROGRAM = """vyre 1

// Doubles each element.
program @double workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %i = global_id x
  %v = load @x[%i] : u32
  %d = add %v, %v : u32
  store %d, @y[%i] : u32
}
"""


def ask(editor, method, params_type, uri, offset, **more):
    """The answer to a request about a place in a text."""
    return editor.wait(
        getattr(editor.client, f"{method}_async")(params_type(**editor.at(uri, offset), **more))
    )


def hover(editor, uri, offset):
    shown = ask(editor, "text_document_hover", types.HoverParams, uri, offset)
    return shown.contents.value if shown else ""


def complete(editor, uri, offset):
    items = ask(editor, "text_document_completion", types.CompletionParams, uri, offset).items
    return [item.label for item in sorted(items, key=lambda item: item.sort_text)]


# --- diagnostics --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", quick(EXAMPLES, lambda path: path.parent, 4, ids=[path.stem for path in EXAMPLES])
)
def test_examples_have_no_problems_and_all_requests_are_answered(editor, path):
    """And the formatter's text means the same."""
    uri = editor.open_file(path)
    assert editor.diagnostics(uri) == []
    ask_everything(editor, uri, len(editor.texts[uri]) // 2)
    options = types.FormattingOptions(2, True)
    params = types.DocumentFormattingParams(types.TextDocumentIdentifier(uri), options)
    edits = editor.wait(editor.client.text_document_formatting_async(params))
    assert str(parse(editor.edited(uri, edits))) == str(parse(editor.texts[uri]))
    editor.close(uri)


def test_diagnostics_come_as_one_types(editor):
    uri = editor.open(PROGRAM, "file:///types.vyre")
    assert editor.diagnostics(uri) == []
    place = PROGRAM.index("%v, %v")
    editor.edit(uri, place, place + 2, "%vv")
    (problem,) = editor.diagnostics(uri)
    assert problem.message == "%vv is not defined\nhelp: did you mean %v?"
    assert problem.range == types.Range(types.Position(8, 11), types.Position(8, 14))
    editor.edit(uri, place, place + 3, "%v")
    assert editor.diagnostics(uri) == []


def test_notes_are_related_information(editor):
    text = PROGRAM.replace("store %d, @y", "store %d, @x")
    uri = editor.open(text, "file:///notes.vyre")
    (problem, *_) = editor.diagnostics(uri)
    assert problem.message.startswith("@x is written here, but it is read-only")
    (note,) = problem.related_information
    assert note.message == "@x is declared here"
    assert note.location.range.start == types.Position(4, 2)


@pytest.mark.parametrize(
    "encoding", quick([None, types.PositionEncodingKind.Utf8, types.PositionEncodingKind.Utf32], keep=2)
)
def test_columns_are_in_the_units_that_were_agreed_on(encoding, editor):
    """An error behind characters of 1, 2 and 4 bytes in UTF-8, and 1 and 2 units in UTF-16."""
    before = '  trap "é\N{GRINNING FACE}" '
    text = f"vyre 1\nprogram @p workgroup(1) {{\n{before}foo\n}}\n"
    with Editor(encodings=[encoding]) if encoding else nullcontext(editor) as an_editor:
        uri = an_editor.open(text, "file:///columns.vyre")
        (problem, *_) = an_editor.diagnostics(uri)
    size = {None: 2 * len(before) - len(before) + 1, "utf-8": len(before.encode()), "utf-32": len(before)}[
        encoding
    ]
    assert problem.range.start == types.Position(2, size)


def test_lines_end_where_the_protocol_says(editor):
    """Not at U+2028 and the form feed, at which Python's splitlines ends them too; and at a carriage return."""
    text = "vyre 1\r\n// \u2028 \x0c \x85\rprogram @p workgroup(1) {\n  foo\n}\n"
    uri = editor.open(text, "file:///lines.vyre")
    (problem,) = editor.diagnostics(uri)
    assert problem.range.start == types.Position(3, 2)


def test_a_close_takes_the_problems_away(editor):
    uri = editor.open("vyre 1\nprogram @p {\n}\n", "file:///closed.vyre")
    assert editor.diagnostics(uri)
    editor.close(uri)
    deadline = time.monotonic() + 60
    while editor.published[uri].diagnostics and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not editor.published[uri].diagnostics


# --- reading ------------------------------------------------------------------------------


def test_hover_has_types_documentation_ranges_and_footprints(editor):
    uri = editor.open(PROGRAM, "file:///hover.vyre")
    assert "%v : u32" in hover(editor, uri, PROGRAM.index("%v ="))
    assert "a + b" in hover(editor, uri, PROGRAM.index("add"))
    index = hover(editor, uri, PROGRAM.index("@x[%i") + 3)
    assert "affine form: `64*workgroup_id.x + local_id.x`" in index
    assert "64 elements of a workgroup" in index
    program = hover(editor, uri, PROGRAM.index("@double"))
    assert "Doubles each element." in program
    assert hover(editor, uri, PROGRAM.index("// Doubles") + 5) == ""


def test_hover_says_why_something_is_fused_or_is_not(editor):
    two = next(path for path in EXAMPLES if path.stem == "two_consumers")
    uri = editor.open_file(two)
    text = editor.texts[uri]
    assert "launch_fusion, applied: 2 launches" in hover(editor, uri, text.index("launch @square"))
    assert "launch_fusion, refused" in hover(editor, uri, text.index("launch @flip"))
    assert "stays in storage" in hover(editor, uri, text.index("@squares :"))
    hex_sum = next(path for path in EXAMPLES if path.stem == "hex_sum")
    uri = editor.open_file(hex_sum)
    assert "decode_scan_fuse, applied: @decoded" in hover(editor, uri, editor.texts[uri].index("@decoded :"))


def test_definition_references_and_highlights(editor):
    uri = editor.open(PROGRAM, "file:///names.vyre")
    place = PROGRAM.index("%v, %v")
    (definition,) = ask(editor, "text_document_definition", types.DefinitionParams, uri, place)
    assert definition.range.start == types.Position(7, 2)
    context = types.ReferenceContext(include_declaration=True)
    every = ask(editor, "text_document_references", types.ReferenceParams, uri, place, context=context)
    assert [location.range.start.line for location in every] == [7, 8, 8]
    marks = ask(editor, "text_document_document_highlight", types.DocumentHighlightParams, uri, place)
    assert [mark.kind for mark in marks] == [
        types.DocumentHighlightKind.Write,
        *[types.DocumentHighlightKind.Read] * 2,
    ]


def test_rename_and_its_refusal(editor):
    uri = editor.open(PROGRAM, "file:///rename.vyre")
    place = PROGRAM.index("%v, %v")
    edit = ask(editor, "text_document_rename", types.RenameParams, uri, place, new_name="value")
    renamed = editor.edited(uri, edit.changes[uri])
    assert renamed == PROGRAM.replace("%v", "%value")
    with pytest.raises(JsonRpcException, match="%d is the name of another value here"):
        ask(editor, "text_document_rename", types.RenameParams, uri, place, new_name="%d")


def test_completion_knows_what_fits(editor):
    text = PROGRAM.replace("  store", "  %p = lt %v, %d : u32\n  %n = \n  store")
    uri = editor.open(text, "file:///completion.vyre")
    place = text.index("%n = ") + 5
    assert {"add", "load", "global_id"} <= set(complete(editor, uri, place))
    for typed, wanted in (
        ("select %", {"%p"}),
        ("load @x[%", {"%i", "%v", "%d"}),
        ("load @", {"@x", "@y"}),
        ("global_id ", {"x", "y", "z"}),
        ("atomic_add<", {"relaxed", "acquire", "release", "acq_rel", "seq_cst"}),
    ):
        editor.edit(uri, place, place, typed)
        assert set(complete(editor, uri, place + len(typed))) == wanted, typed
        editor.edit(uri, place, place + len(typed), "")
    editor.edit(uri, place, place, "add %v, %d : ")
    assert complete(editor, uri, place + 13)[0] == "u32"
    stages = f"{PROGRAM}\npipeline @main {{\n  buffer @b : u32[4]\n  fill(@)\n  \n}}\n"
    uri = editor.open(stages, "file:///stages.vyre")
    place = stages.index("fill(@") + 6
    assert set(complete(editor, uri, place)) == {"@b"}
    assert {"launch", "fill", "host_read"} <= set(complete(editor, uri, stages.index("  \n}") + 2))


def test_outline_and_folds(editor):
    uri = editor.open(PROGRAM, "file:///outline.vyre")
    document = types.TextDocumentIdentifier(uri)
    symbols = editor.wait(
        editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
    )
    assert [(s.name, [child.name for child in s.children]) for s in symbols] == [("@double", ["@x", "@y"])]
    folds = editor.wait(editor.client.text_document_folding_range_async(types.FoldingRangeParams(document)))
    assert (folds[0].start_line, folds[0].end_line) == (3, 9)


def test_code_actions_are_the_fixes(editor):
    text = PROGRAM.replace("load @x", "load @y")
    uri = editor.open(text, "file:///fixes.vyre")
    (problem,) = editor.diagnostics(uri)
    context = types.CodeActionContext(diagnostics=[problem])
    params = types.CodeActionParams(types.TextDocumentIdentifier(uri), problem.range, context)
    (action,) = editor.wait(editor.client.text_document_code_action_async(params))
    assert action.title == "declare @y read_write live_in live_out"
    fixed = editor.edited(uri, action.edit.changes[uri])
    editor.replace(uri, fixed)
    assert [p.severity for p in editor.diagnostics(uri)] != [types.DiagnosticSeverity.Error]


# --- texts that are being typed -----------------------------------------------------------


def ask_everything(editor, uri, offset):
    """Every request about a place; whatever they answer, they do."""
    at = editor.at(uri, offset)
    document = types.TextDocumentIdentifier(uri)
    start = types.Range(types.Position(0, 0), at["position"])
    ask(editor, "text_document_hover", types.HoverParams, uri, offset)
    ask(editor, "text_document_completion", types.CompletionParams, uri, offset)
    ask(editor, "text_document_definition", types.DefinitionParams, uri, offset)
    ask(editor, "text_document_document_highlight", types.DocumentHighlightParams, uri, offset)
    ask(editor, "text_document_prepare_rename", types.PrepareRenameParams, uri, offset)
    for method, params in (
        ("document_symbol", types.DocumentSymbolParams(document)),
        ("folding_range", types.FoldingRangeParams(document)),
        ("formatting", types.DocumentFormattingParams(document, types.FormattingOptions(2, True))),
        ("code_action", types.CodeActionParams(document, start, types.CodeActionContext([]))),
    ):
        editor.wait(getattr(editor.client, f"text_document_{method}_async")(params))


def check_half_typed(editor, texts, count, seed):
    uri = editor.open("vyre 1\n", f"file:///half_typed_{seed}.vyre")
    for text in half_typed(texts, count, seed):
        editor.replace(uri, text)
        for problem in editor.diagnostics(uri):
            start, end = problem.range.start, problem.range.end
            assert (0, 0) <= (start.line, start.character) <= (end.line, end.character)
        ask_everything(editor, uri, seed * 7919 % (len(text) + 1))
    editor.close(uri)


def test_half_typed_texts_are_answered(editor, texts):
    check_half_typed(editor, texts, 25, seed=1)


@pytest.mark.campaign  # minutes: a thousand texts, with ten requests each
@pytest.mark.parametrize("seed", range(2, 4))
def test_a_thousand_half_typed_texts_are_answered(editor, texts, seed):
    check_half_typed(editor, texts, 250, seed)


def test_a_program_that_is_typed_letter_by_letter(editor):
    uri = editor.open("", "file:///typed.vyre")
    for place, letter in enumerate(PROGRAM):
        editor.edit(uri, place, place, letter)
        editor.diagnostics(uri)
    assert editor.diagnostics(uri) == []


def test_edits_in_a_burst_give_the_problems_of_the_last_text(editor):
    """Those in between may be left out; and requests are answered meanwhile, from what was known before."""
    text = straight_vyre(1000)
    uri = editor.open(text, "file:///burst.vyre")
    assert editor.diagnostics(uri) == []
    place = text.index("\n", text.index("%v500 =")) + 1
    for number, letter in enumerate("  %new = add %a, %missing : u32\n"):
        editor.edit(uri, place + number, place + number, letter)
        if number % 8 == 0:
            assert complete(editor, uri, place) is not None
    assert [p.message.split("\n")[0] for p in editor.diagnostics(uri)] == ["%missing is not defined"]
    assert "%v10 : u32" in hover(editor, uri, text.index("%v10 ="))


# --- the process --------------------------------------------------------------------------


def test_it_ends_when_its_client_does():
    """By the end of its input, without a traceback."""
    ran = subprocess.run(server_command(), input=b"", capture_output=True, timeout=60)
    assert ran.returncode == 0
    assert b"Traceback" not in ran.stderr


def test_without_the_extra_it_says_what_to_install():
    script = "import sys; sys.modules['pygls'] = None\nfrom vyre_opt.cli.lsp import main\nsys.exit(main([]))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "error: vyre-lsp needs pygls: pip install 'vyre-opt[lsp]'\n"


class Raw:
    """A client that sends what no library would send."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-c", server_command()[2].replace("[]", repr([*options]))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, content: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(content), content))
        self.process.stdin.flush()

    def ask(self, content: object) -> dict:
        """The next answer, after sending JSON, or bytes as they are."""
        self.send(content if isinstance(content, bytes) else json.dumps(content).encode())
        assert self.process.stdout is not None
        size = 0
        while head := self.process.stdout.readline().strip():
            name, _, value = head.partition(b": ")
            size = int(value) if name == b"Content-Length" else size
        return json.loads(self.process.stdout.read(size))


def request(number: object, method: object, **params: object) -> dict:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


WRONG = [
    (b"{", None, -32700),
    (b"\xff\xfe", None, -32700),
    (b"[" * 100_000, None, -32700),
    ([], None, -32600),
    ("text", None, -32600),
    ({"id": 1, "method": "shutdown"}, 1, -32600),
    (request([1], "shutdown"), None, -32600),
    (request(True, "shutdown"), None, -32600),
    (request(1, 7), 1, -32600),
    (request(2, "no/such"), 2, -32601),
    ({"jsonrpc": "2.0", "id": 3, "method": "no/such"}, 3, -32601),
    ({"jsonrpc": "2.0", "id": 4, "method": "textDocument/hover"}, 4, -32602),
    ({"jsonrpc": "2.0", "id": "a", "method": "textDocument/hover", "params": [1]}, "a", -32602),
    (request(5, "textDocument/hover", textDocument={"uri": "file:///a"}), 5, -32602),
    (request(6, "textDocument/rename", position={"line": -1, "character": "x"}), 6, -32602),
    (request(7, "workspace/executeCommand", command="none"), 7, -32602),
]


def test_wrong_requests_are_answered_and_the_server_goes_on():
    """And wrong notifications have no answer."""
    start = request(0, "initialize", capabilities={}, processId=None, rootUri=None)
    with Raw("--max-input=200000") as client:
        assert client.ask(start)["id"] == 0
        for content, number, code in WRONG:
            answer = client.ask(content)
            assert (answer.get("id"), answer["error"]["code"]) == (number, code), (content, answer)
        assert "200000 bytes; --max-input allows more" in client.ask(b" " * 200_001)["error"]["message"]
        for method in ("$/cancelRequest", "textDocument/didChange", "textDocument/didOpen", "no/such"):
            client.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": {"id": {}}}).encode())
        assert client.ask(request(1, "shutdown")) == {"jsonrpc": "2.0", "id": 1, "result": None}
        assert client.ask(request(2, "shutdown"))["error"]["message"] == "the server has been shut down"
        client.send(b'{"jsonrpc": "2.0", "method": "exit"}')
        assert client.process.wait(60) == 0
        assert client.process.stderr is not None
        assert b"Traceback" not in client.process.stderr.read()


def test_a_timeout_ends_it_while_it_waits():
    with Raw("--timeout=0.2") as client:
        assert client.process.wait(60) == 1
        assert client.process.stderr is not None
        assert client.process.stderr.read() == b"error: not done after 0.2 s\n"


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_closed_stream_is_named(stream, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sys, stream, None)
        with pytest.raises(ToolError, match=f"{stream} is closed"):
            lsp.command.main([], standalone_mode=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_what_ends_a_stream_ends_the_server(tmp_path):
    """Neither a stream of something else nor a full disk leaves it waiting."""
    path = tmp_path / "message"
    path.write_bytes(b"Content-Length: 2\r\n\r\n{}")
    with (
        path.open("rb") as stdin,
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(OSError, match="stdout"),
    ):
        serve(stdin.fileno(), full, 1000)
    path.write_bytes(b"\n" * 100_000)
    with path.open("rb") as stdin, pytest.raises(NoHeader):
        serve(stdin.fileno(), io.BytesIO(), 1000)


def test_an_exit_does_not_wait_for_its_threads():
    """Of a pass that takes its time, say."""
    script = (
        "import threading, vyre_opt.lsp.daemon_executor as daemon_executor\n"
        "busy = daemon_executor.DaemonExecutor('busy'); begun = threading.Event()\n"
        "busy.submit(lambda: (begun.set(), threading.Event().wait())); begun.wait()\n"
        "done = daemon_executor.DaemonExecutor('done')\n"
        "assert done.submit(int, '7').result() == 7\n"
        "assert isinstance(done.submit(int, 'x').exception(), ValueError)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
