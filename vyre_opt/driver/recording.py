"""Calls that fault, kept so that they can be repeated: `VYRE_RECORD=FOLDER`, and then `vyre-run --replay`.

    FOLDER/saxpy-1/module.vyre      the program as it was written, before passes, with its constants
                   record.json      a `FaultRecord`
                   inputs/x.npy     what each array held before the call
                   sources/0        the texts of the files that messages show

A record is complete when its folder is there.  Inputs are copied before each call, since calls change their arrays; of a GPU
this waits for each call.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..execution.array_backend import ArrayBackend
from ..execution.arrays import storage_type
from ..execution.dispatcher import Invocation, ProgramError
from ..execution.params import value_of_word
from ..execution.plans.call_plan import CallPlan, Loaded
from ..execution.plans.watch import Watch
from ..execution.shapes import array_of
from ..ir.author_words import PYTHON, VYRE
from ..ir.bounded_read import read_file
from ..ir.diagnostics import Location, Source
from ..ir.literals import show
from ..ir.pipeline import Pipeline
from ..ir.program import AccessMode, Buffer, Dim3, Func, Module
from ..ir.scopes import BufferName, LocalName, Scope, ScopedLocation, ValueName
from ..records import dataclass
from ..rewriting.cloning import copy_module
from ..syntax.printer import print_program
from .recording_folder import recording_folder

__all__ = [
    "FaultRecord",
    "RecordError",
    "Recorder",
    "new_recorder",
    "read_record",
    "restore_places",
]

MAX_BYTES = 1 << 30
"""Most bytes of a call's inputs; those of a larger call are not copied."""
MAX_RECORDS = 16
"""Most records of a folder: a program that faults in a loop does not fill the disk."""
VERSION = 1


class RecordError(Exception):
    """A folder that is no record; the text says why."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """Record of a call in the words of vyre-run, and of its fault.

    `inputs`: the names of the buffers whose contents are `inputs/0.npy` and so on; `lengths`: the extents of the other buffers; `params`: as the language writes them.
    `place`: `file:line:column` of the op.  `workgroup`, `local`: of the invocation, if one is known.
    `sources`: the name of each file of `sources/`, and the name of its spelling.
    `places`: for each part of the module that has one, in the order of the text, [source, start, end, scope]; `scopes`: as
    [functions, names].
    """

    version: int
    entry: str
    target: str
    grid: list[int] | None
    inputs: list[str]
    lengths: dict[str, list[int]]
    params: dict[str, str]
    kind: str
    message: str
    place: str
    workgroup: list[int] | None
    local: list[int] | None
    sources: list[list[str]]
    places: list[list[int | None] | None]
    scopes: list[list[Any]]


def new_recorder(module: Module, name: str) -> Recorder | None:
    """The recorder of a program or a pipeline of a module, before its passes; None where nobody asks for one."""
    folder = recording_folder()
    return Recorder(folder, copy_module(module), name) if folder else None


class Recorder:
    """Keeps the calls that fault of a program or a pipeline.  `written`: its module before passes."""

    def __init__(self, folder: Path, written: Module, name: str) -> None:
        self.folder, self.written, self.name = folder, written, name

    def around(self, call: CallPlan, loaded: Loaded, backend: ArrayBackend, grid: Dim3 | None) -> Loaded:
        """A loaded plan whose faults are recorded."""
        return _RecordedPlan(self, call, loaded, backend, grid)

    def keep(
        self,
        fault: ProgramError,
        call: CallPlan,
        inputs: Mapping[str, np.ndarray],
        words: Mapping[str, int],
        grid: Dim3 | None,
        target: str,
    ) -> None:
        """Write a record, and note in the fault where it is, or why there is none."""
        try:
            where = self._write(fault, call, inputs, words, grid, target)
        except (OSError, RecordError) as error:
            reason = getattr(error, "strerror", None) or error
            fault.diagnostic.note(f"the call is not recorded in {self.folder}: {reason}", None)
        else:
            here = where.relative_to(Path.cwd()) if where.is_relative_to(Path.cwd()) else where
            fault.diagnostic.note(f"the call is recorded: vyre-run --replay {here}", None)

    def _write(
        self,
        fault: ProgramError,
        call: CallPlan,
        inputs: Mapping[str, np.ndarray],
        words: Mapping[str, int],
        grid: Dim3 | None,
        target: str,
    ) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        known = [path for path in self.folder.iterdir() if (path / "record.json").exists()]
        if len(known) >= MAX_RECORDS:
            raise RecordError(f"{self.folder} has {len(known)} records; remove some")
        sources, places, scopes = _places_of(self.written)
        by = fault.invocation or Invocation(None, ())
        buffers, params = call.plan.buffers, call.plan.pipeline.params
        record = FaultRecord(
            VERSION,
            self.name,
            target,
            None if grid is None else [*grid],
            [*inputs],
            {name: [extent or 0 for extent in b.shape] for name, b in buffers.items() if name not in inputs},
            {
                name: show(value_of_word(word, params[name]), params[name].dtype)
                for name, word in words.items()
            },
            fault.kind,
            fault.diagnostic.message,
            str(fault.diagnostic.loc),
            _first_ids(by.workgroup),
            _first_ids(by.local),
            [[source.name, source.spelling.name] for source in sources],
            places,
            scopes,
        )
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self.folder))
        try:
            (draft / "inputs").mkdir()
            (draft / "sources").mkdir()
            (draft / "module.vyre").write_text(print_program(self.written, version=1), encoding="utf-8")
            for number, array in enumerate(inputs.values()):
                np.save(draft / f"inputs/{number}.npy", array, allow_pickle=False)
            for number, source in enumerate(sources):
                (draft / f"sources/{number}").write_text(source.text, encoding="utf-8")
            (draft / "record.json").write_text(json.dumps(asdict(record)), encoding="utf-8")
            return _renamed(draft, self.folder, self.name)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _renamed(draft: Path, folder: Path, name: str) -> Path:
    """The folder of a complete record, by the first number that no other process has taken."""
    draft.chmod(0o755)
    for number in range(1, 10 * MAX_RECORDS):
        path = folder / f"{name}-{number}"
        if path.exists():
            continue
        try:
            return draft.rename(path)
        except OSError:
            if not path.exists():
                raise
    raise RecordError(f"{folder} has too many records")


class _RecordedPlan:
    """A loaded plan that copies the inputs of each run before it, and hands them to the recorder of a fault."""

    def __init__(
        self, recorder: Recorder, call: CallPlan, loaded: Loaded, backend: ArrayBackend, grid: Dim3 | None
    ) -> None:
        self.recorder, self.call, self.loaded, self.backend, self.grid = recorder, call, loaded, backend, grid
        self.piece_bytes, self.pieces, self.kept_bytes = loaded.piece_bytes, loaded.pieces, loaded.kept_bytes
        slots = {name: n for name, n in call.slots.items() if n < call.inputs} | {**call.copies}
        self._slots = {name: n for name, n in slots.items() if _is_read(call.plan.buffers[name])}
        self._bytes = sum(_array_of(call.plan.buffers[name]).nbytes for name in self._slots)

    def run(self, stream: int, *words: int) -> int:
        return self._run(stream, words, lambda: self.loaded.run(stream, *words))

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        return self._run(stream, words, lambda: self.loaded.watched(watch, stream, words))

    def explain(self, status: int) -> bool:
        return self.loaded.explain(status)

    def _run(self, stream: int, words: Sequence[int], run: Callable[[], int]) -> int:
        backend, call = self.backend, self.call
        if backend.is_capturing(stream):
            return run()
        backend.synchronize()  # so that no fault of another call is taken for one of this
        inputs: dict[str, np.ndarray] = {}
        if self._bytes <= MAX_BYTES:
            for name, slot in self._slots.items():
                inputs[name] = _array_of(call.plan.buffers[name])
                backend.read(words[slot], inputs[name])
        try:
            status = run()
            if not status:
                backend.synchronize()
        except ProgramError as fault:
            if self._bytes > MAX_BYTES:
                fault.diagnostic.note(
                    f"the call is not recorded: its inputs have {self._bytes} bytes, and {MAX_BYTES} is the most",
                    None,
                )
                raise
            names = sorted(call.plan.pipeline.params)
            params = dict(zip(names, words[len(words) - len(names) :], strict=True))
            self.recorder.keep(fault, call, inputs, params, self.grid, backend.target)
            raise
        return status


def _is_read(buffer: Buffer) -> bool:
    return buffer.access is AccessMode.READ or buffer.live_in


def _array_of(buffer: Buffer) -> np.ndarray:
    """A new array for the contents of a buffer of known extents."""
    stored = storage_type(buffer.dtype)
    assert stored is not None
    return np.empty(array_of(buffer, tuple(extent or 0 for extent in buffer.shape)), stored)


def _first_ids(ids: Sequence[object] | None) -> list[int] | None:
    """The numbers of ids, of which `4 to 7` stands for several."""
    firsts = [re.match(r"\d+", str(each)) for each in ids or ()]
    return [int(match[0]) for match in firsts if match] or None


# --- places


def _located(module: Module) -> Iterator[Any]:
    """Parts of a module that have a location, in the order of its text."""
    for item in module.order:
        yield item
        if not isinstance(item, Func):
            yield from (*item.buffers.values(), *item.specs.values(), *item.params.values())
        yield from item.walk() if isinstance(item, Pipeline) else item.body.walk()


def _places_of(module: Module) -> tuple[list[Source], list[list[int | None] | None], list[list[Any]]]:
    """The sources, the places in them, and the scopes; see `FaultRecord`."""
    sources: dict[tuple[str, str], Source] = {}
    numbers: dict[tuple[str, str], int] = {}
    scopes: dict[Scope, int] = {}
    places: list[list[int | None] | None] = []
    for each in _located(module):
        loc: Location | None = each.loc
        if loc is None:
            places.append(None)
            continue
        key = loc.source.name, loc.source.text
        sources.setdefault(key, loc.source)
        number = numbers.setdefault(key, len(numbers))
        scope = scopes.setdefault(loc.scope, len(scopes)) if isinstance(loc, ScopedLocation) else None
        places.append([number, loc.start, loc.end, scope])
    encoded = [
        [[*scope.calls], {name: _encoded(binding) for name, binding in scope.names.items()}]
        for scope in scopes
    ]
    return [*sources.values()], places, encoded


def _encoded(binding: Any) -> Any:
    """Binding of a name, as JSON; constants without a form there become their text."""
    if isinstance(binding, ValueName):
        return {"value": binding.name}
    if isinstance(binding, BufferName):
        return {"buffer": binding.name}
    if isinstance(binding, LocalName):
        return {"local": [*map(_encoded, binding.parts)], "shape": [*binding.shape]}
    if isinstance(binding, tuple) and hasattr(binding, "_fields"):
        parts = [*map(_encoded, binding)]
        return {"named": parts, "class": type(binding).__name__, "fields": [*binding._fields]}
    if isinstance(binding, tuple):
        return [_encoded(part) for part in binding]
    is_plain = binding is None or type(binding) in (bool, int, float, str)
    return {"constant": binding if is_plain else str(binding)}


def _decoded(binding: Any) -> Any:
    if isinstance(binding, list):
        return tuple(map(_decoded, binding))
    if "local" in binding:
        return LocalName(tuple(map(_decoded, binding["local"])), tuple(map(int, binding["shape"])))
    if "named" in binding:
        return namedtuple(binding["class"], binding["fields"])(*map(_decoded, binding["named"]))
    if "value" in binding:
        return ValueName(binding["value"])
    return BufferName(binding["buffer"]) if "buffer" in binding else binding["constant"]


def read_record(folder: Path) -> tuple[Path, FaultRecord]:
    """A record and its folder: `folder` itself, or the latest in it.  Raises RecordError."""
    if not (folder / "record.json").exists() and folder.is_dir():
        inner = [path for path in folder.iterdir() if (path / "record.json").exists()]
        folder = max(inner, key=lambda path: path.stat().st_mtime, default=folder)
    try:
        fields = json.loads(read_file(folder / "record.json"))
    except OSError as error:
        help = f"run with --record={folder}, or VYRE_RECORD={folder}, until a fault writes one"
        raise RecordError(
            f"{folder} is no record of a fault: {error.strerror}: record.json; {help}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{folder}/record.json is damaged: {error}") from None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        raise RecordError(f"{folder}/record.json is of another version")
    if fields.keys() != _FORMS.keys() or not all(is_right(fields[name]) for name, is_right in _FORMS.items()):
        raise RecordError(f"{folder}/record.json is damaged: its fields are not those of a record")
    return folder, FaultRecord(**fields)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _are_ids(value: Any) -> bool:
    return value is None or (_are_numbers(value) and 1 <= len(value) <= 3)


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _are_shapes(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_numbers, value.values()))


_FORMS = {
    "version": lambda value: value == VERSION,
    **dict.fromkeys(("entry", "target", "kind", "message", "place"), _is_text),
    **dict.fromkeys(("grid", "workgroup", "local"), _are_ids),
    "params": _are_texts,
    "inputs": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "lengths": _are_shapes,
    **dict.fromkeys(("sources", "places", "scopes"), _is_list),
}
"""Check of the contents of each field of a `FaultRecord`."""


def restore_places(module: Module, folder: Path, record: FaultRecord) -> None:
    """Give the parts of a module that was read back their places in the files that it was written in.  Raises RecordError."""
    try:
        spellings = {"VYRE": VYRE, "PYTHON": PYTHON}
        sources = [
            Source(read_file(folder / f"sources/{number}").decode(), name, spelling=spellings[spelling])
            for number, (name, spelling) in enumerate(record.sources)
        ]
        scopes = [
            Scope((str(first), *map(str, calls)), {n: _decoded(b) for n, b in names.items()})
            for (first, *calls), names in record.scopes
        ]
        parts = [*_located(module)]
        if len(parts) != len(record.places):
            raise RecordError(f"{folder}: module.vyre is not the module of record.json")
        for part, place in zip(parts, record.places, strict=True):
            part.loc = None if place is None else _location(place, sources, scopes)
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RecordError(f"{folder} is damaged: {error}") from None


def _location(place: Sequence[int | None], sources: list[Source], scopes: list[Scope]) -> Location:
    number, start, end, scope = place
    if number is None or start is None or end is None or min(number, scope or 0) < 0:
        raise ValueError(f"{place} is no place")
    source = sources[number]
    if not 0 <= start <= end <= len(source.text):
        raise ValueError(f"{place} is no place in {source.name}")
    loc = Location(source, start, end)
    return loc if scope is None else ScopedLocation(loc, scopes[scope])
