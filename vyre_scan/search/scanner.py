"""`Scanner`: patterns, compiled once, and a search for them in any data."""

from __future__ import annotations

import operator
from collections.abc import Iterable, MutableMapping
from functools import cached_property, lru_cache
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vyre_opt.execution.cache.store import default_store
from vyre_opt.execution.dispatcher import BadInputs, shared_dispatcher
from vyre_opt.execution.target import Target, as_target
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

from ..arrays import Array
from ..patterns.pattern_list import BOUNDS, Patterns, read_patterns
from .cached_patterns import cached_tables
from .data import DeviceOctets
from .encodings import ENCODINGS, RAW, Encoding
from .files import PIECE, scan_files
from .matches import Matches
from .saved import read_patterns_file, write_patterns
from .stream import Stream
from .tables import PatternTables, SearchTables

if TYPE_CHECKING:
    import pyarrow

    from vyre_opt.targets.cuda import CudaDispatcher

    from .gpu import GpuSearch

__all__ = ["Scanner"]

MOST_THREADS = 1024
TARGETS = ("cpu", "cuda")


class Scanner:
    """Searches for all of `patterns` at once, in bytes or in what text encodes.

        scanner = Scanner([b"needle", b"pin"], encoding="base64")
        for start, end, pattern in scanner.scan(text): ...

    `patterns`: each bytes, an array of u8, or a str, of which its UTF-8 counts; a `Rule`, and what `re.compile` returns, is a
    regular expression, and with `regex` all are.  `encoding`: None, "base64", "base64url" or "hex".  `caseless`: ASCII letters
    match in either case.  `strict`: every character of the text holds bits, or is padding; otherwise blanks and line breaks
    are skipped, and padding may be left out.  `threads`: that search at once, by default as many as CPUs.  `target`: "cuda"
    has large data searched by GPU `device`, "cpu" none; by default an array on a GPU is searched there, and all else by the
    CPU.  `bounds`: of regular expressions; with "line" no match has a line break, and anchors are those of lines, with "word" no
    letter, digit or _ is around a match, and with "whole" it is a whole line.

    Of literals all matches are found, those that overlap too; of a regular expression those that `re.finditer` gives.

    Raises PatternError for wrong patterns, with the place of each mistake, LimitExceeded where literals need too large a
    table, and BadInputs for other wrong arguments.  All are ValueErrors.  A search raises BackendError where `target` is
    "cuda" and there is no GPU.
    """

    def __init__(
        self,
        patterns: Iterable[Any],
        encoding: str | None = None,
        caseless: bool = False,
        regex: bool = False,
        strict: bool = True,
        *,
        threads: int | None = None,
        target: str | None = None,
        device: int = 0,
        bounds: str = "",
    ) -> None:
        for name, flag in (("caseless", caseless), ("regex", regex), ("strict", strict)):
            if not isinstance(flag, (bool, np.bool_)):
                raise BadInputs(f"{name} is True or False, not {flag!r}")
        caseless, regex = bool(caseless), bool(regex)
        if bounds not in BOUNDS or (bounds and not regex):
            raise BadInputs(
                f"bounds={bounds!r} is none of {', '.join(BOUNDS[1:])}, or patterns are no expressions"
            )
        read = read_patterns(patterns, regex=regex, caseless=caseless, bounds=bounds)
        tables = cached_tables(read, caseless, default_store())
        self._set(tables, encoding, strict, threads, target, device)

    def _set(
        self, tables: PatternTables, encoding: Any, strict: Any, threads: Any, target: Any, device: Any
    ) -> None:
        if encoding is not None and (not isinstance(encoding, str) or encoding not in ENCODINGS):
            raise BadInputs(f"unknown encoding {encoding!r}; there are {', '.join(ENCODINGS)}, and None")
        if threads is not None:
            threads = min(_number(threads, "threads"), MOST_THREADS)
        if target is not None and target not in TARGETS:
            raise BadInputs(f"unknown target {target!r}; there are {', '.join(TARGETS)}, and None")
        self.target, self.device = target, _number(device, "device", 0)
        self._tables, self.encoding, self.strict, self.threads = tables, encoding, bool(strict), threads

    @property
    def num_patterns(self) -> int:
        return self._tables.num_patterns

    def __repr__(self) -> str:
        encoding = "" if self.encoding is None else f" in {'strict ' * self.strict}{self.encoding}"
        return f"<Scanner for {self.num_patterns} pattern{'s' * (self.num_patterns != 1)}{encoding}>"

    def scan(self, data: Any) -> Matches:
        """All matches in `data`: bytes, a memoryview, an mmap, or an array of u8 of NumPy, torch or CuPy.

        Raises EncodingError, a ValueError, with the place of the first character that encodes nothing, and BadInputs.
        """
        return Stream(*self._settings, self._gpu_searches, is_whole=True).all_in(data)

    def scan_stream(self, chunks: Iterable[Any]) -> Matches:
        """All matches in the data that `chunks` are together, with those that span several of them.

        Raises what `scan` does.  To have matches before the last chunk is there, see `stream`.
        """
        if isinstance(chunks, (str, bytes, bytearray, memoryview, np.ndarray)) or not isinstance(
            chunks, Iterable
        ):
            raise BadInputs(
                f"chunks are parts of data, one after the other, not {type(chunks).__name__}; scan takes the whole"
            )
        stream = self.stream()
        return Matches.joined([*map(stream.feed, chunks), stream.finish()])

    def scan_files(
        self,
        paths: Iterable[str | PathLike[str]],
        client: Any = None,
        *,
        errors: MutableMapping[str, Exception] | None = None,
        piece: int = PIECE,
    ) -> dict[str, pyarrow.Table]:
        """The matches in each file, by its path, as tables with the columns start, end (u64) and pattern (u32), and of
        encoded text encoded_start and encoded_end (u64).

        `client`: a `distributed.Client`, whose workers search pieces of `piece` bytes at once; those of a worker that dies
        are searched again by others.  None: this process searches one after the other.  The scanner travels to each worker
        once, and a task's threads are its share of the cores.  Workers with the resource GPU search on the first GPU that they
        see, unless the scanner has a target.  `errors`: gets the exceptions of files that cannot be
        read or that encode nothing, by path; None: the first is raised, when all files were searched.

        Needs the extra `[dask]`: `pip install 'vyre-opt[dask]'`.
        """
        return scan_files(self, paths, client, errors, _number(piece, "piece"))

    def with_threads(self, threads: int | None) -> Scanner:
        """The same scanner for another number of threads; it shares the tables."""
        return self._with(threads=threads)

    def with_target(self, target: str | None, device: int = 0) -> Scanner:
        """The same scanner for another target; it shares the tables."""
        return self._with(target=target, device=device)

    def on(self, dispatcher: Target) -> Scanner:
        """The same scanner for what a dispatcher runs programs on; it shares the tables."""
        if dispatcher.name == "cuda":
            gpu: Any = dispatcher
            return self.with_target("cuda", gpu.device.number)
        scanner = self.with_target("cpu")
        scanner._dispatcher = dispatcher
        return scanner

    def _with(self, **settings: Any) -> Scanner:
        """The same patterns with other settings: arguments of `_set`."""
        return _of_tables(self._tables, self._options | settings)

    @property
    def _options(self) -> dict[str, Any]:
        """Arguments of `_set` besides the tables."""
        return {name: getattr(self, name) for name in ("encoding", "strict", "threads", "target", "device")}

    def stream(self) -> Stream:
        """A search that is fed part by part: `stream.feed(part)` and, at the end, `stream.finish()` give `Matches`."""
        return self._stream()

    def _stream(self, **options: Any) -> Stream:
        return Stream(*self._settings, self._gpu_searches, **options)

    @cached_property
    def _settings(self) -> tuple[PatternTables, Encoding, bool, Target]:
        """Settings of all its streams.  Raises BackendError where `target` is "cuda" and there is no GPU."""
        if self.target == "cuda":
            _gpu_dispatcher(self.device).device  # noqa: B018
        return self._tables, self._encoding, self.strict, self._dispatcher

    def _gpu_searches(self, octets: Array | DeviceOctets) -> list[GpuSearch]:
        """Searches of these bytes, or this text, on a GPU, for each automaton; none where the CPU searches."""
        is_resident = isinstance(octets, DeviceOctets)
        if self.target != "cuda" and not (is_resident and self.target is None):
            return []
        number = octets.number if isinstance(octets, DeviceOctets) else self.device
        return [self._gpu_search(tables, number) for tables in self._tables.searches_on_gpu]

    def _gpu_search(self, tables: SearchTables, number: int) -> GpuSearch:
        from .gpu import GpuSearch

        key = (number, self.encoding)
        if key not in tables.gpu_searches:
            assert tables.for_gpu is not None
            tables.gpu_searches[key] = GpuSearch(tables.for_gpu, self._encoding, _gpu_dispatcher(number))
        return tables.gpu_searches[key]

    @property
    def _encoding(self) -> Encoding:
        return RAW if self.encoding is None else ENCODINGS[self.encoding]

    @cached_property
    def _dispatcher(self) -> Target:
        return as_target(shared_dispatcher("cpu")) if self.threads is None else _dispatcher_of(self.threads)

    # --- files, and pickles

    def save(self, path: str | PathLike[str]) -> None:
        """Write the patterns and the options to a file of JSON.  What was there is replaced when all is written.

        Raises BadInputs for rules with conditions, which JSON cannot hold, and OSError.
        """
        if self._tables.has_conditions:
            raise BadInputs("rules with conditions are kept by pickle, not in a file")
        write_patterns(path, self._tables.patterns, self._tables.caseless, self.encoding, self.strict)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        threads: int | None = None,
        target: str | None = None,
        device: int = 0,
    ) -> Scanner:
        """The scanner that `save` wrote.  Raises OSError, and ValueError for a file that holds none."""
        patterns, caseless, encoding, strict = read_patterns_file(path)
        options = {"threads": threads, "target": target, "device": device}
        return _of_patterns(patterns, caseless, {"encoding": encoding, "strict": strict, **options})

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_patterns, (self._tables.patterns, self._tables.caseless, self._options)


def _of_patterns(patterns: Patterns, caseless: bool, options: dict[str, Any]) -> Scanner:
    return _of_tables(cached_tables(patterns, caseless, default_store()), options)


def _of_tables(tables: PatternTables, options: dict[str, Any]) -> Scanner:
    """The scanner of tables.  `options`: the other arguments of `_set`."""
    scanner = Scanner.__new__(Scanner)
    scanner._set(tables, **options)
    return scanner


@lru_cache(maxsize=8)
def _dispatcher_of(threads: int) -> CpuDispatcher:
    """One for all scanners of so many threads: it has the programs' code loaded."""
    return CpuDispatcher(workers=threads)


def _gpu_dispatcher(number: int) -> CudaDispatcher:
    """Dispatcher of a search on a GPU, which checks no bounds: see GpuSearch."""
    dispatcher: Any = shared_dispatcher("cuda", device=number, bounds="none")
    return cast("CudaDispatcher", dispatcher)


def _number(value: Any, name: str, least: int = 1) -> int:
    """A number from `least` on.  Raises BadInputs."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, (bool, np.bool_)):
        raise BadInputs(f"{name} is a number from {least} on, not {value!r}")
    return number
