"""Results of the tuner in the compile cache: an entry for each kernel, with a result for each shape class and device.

    kernel    "math.softmax(f32, f32)"            what is tuned, whatever its sizes (see Workload.family)
    shape     "4096+/64, columns 1024+/64"        sizes that are alike: of the same power of two, with the same divisors
    device    "cpu icelake-server 2 threads"

A result for the same three is taken as it is, or continued where the space or the budget has grown; a result for another shape or
device says where to start.  So nothing is lost when a configuration is added to a space.  An entry that cannot be read
is a miss.  Files of results are for teams to share.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..execution.dispatcher import BadInputs
from ..ir.bounded_read import read_file
from ..specialization.digest import digest_of
from .result import Tuning
from .space import Config, Space

__all__ = [
    "add_result",
    "export_tuning",
    "import_tuning",
    "learnt_starts",
    "result_for",
    "results_of",
    "space_digest",
    "tuning_text",
]

KIND = "tuning"
FORMAT = "vyre-tuning 1"
MAX_RESULTS = 64
"""Most results of a kernel, of which the latest are kept.  Two processes that add one for the same kernel at the same time may lose one, which is then measured
again."""
STARTS = 3
"""The configurations that another shape or device is started with."""
MAX_FILE_BYTES = 256 << 20


def space_digest(space: Space) -> str:
    """Equal for spaces of the same configurations in the same order."""
    return digest_of(
        [
            ("factors", "json", json.dumps(space.factors).encode()),
            ("configurations", "i32", space.rows.astype("<i4").tobytes()),
        ]
    ).hex()


# --- in a store


def results_of(store: Any, family: str) -> list[Tuning]:
    """The results that are kept for a kernel, the latest last."""
    key = _key(family)
    payload = store.get(key, KIND)
    if payload is None:
        return []
    try:
        return _read(payload.decode(), "")
    except ValueError:
        store.discard(key)  # else it would be read, and fail, each time
        return []


def add_result(store: Any, result: Tuning) -> None:
    """Keep a result in place of that for the same shape, device and version; a store that cannot be written to ignores it.

    One whose numbers JSON does not have, as an infinite value of a factor, is not kept.
    """
    other_results = [
        each for each in results_of(store, result.family) if _identity(each) != _identity(result)
    ]
    with suppress(ValueError):
        _write(store, result.family, [*other_results, result])


def result_for(results: Sequence[Tuning], shape: str, device: str) -> Tuning | None:
    """The result for a shape class on a device, of this version; None without one."""
    key = (shape, device, __version__)
    return next((replace(each, kept=True) for each in reversed(results) if _identity(each) == key), None)


def learnt_starts(results: Sequence[Tuning], shape: str, device: str, space: Space) -> list[Config]:
    """Configurations of the space that were chosen elsewhere: on the same device first, then for the same shape, the latest
    first."""
    ranked = list(reversed(results))
    ranked.sort(key=lambda each: (each.device != device, each.shape != shape))
    starts: list[Config] = []
    for each in ranked:
        if each.config not in starts and space.find(each.config) is not None:
            starts.append(each.config)
    return starts[:STARTS]


# --- in files


def tuning_text(store: Any = None) -> tuple[str, int]:
    """All results that are kept, as the text of a file that `import_tuning` reads, and their number.

    `store`: where they are kept; by default the compile cache.
    """
    results = sorted(_all(_store(store)), key=lambda each: (each.kernel, each.device, each.version))
    lines = ",\n".join(each.to_json() for each in results)
    return f'{{"format": "{FORMAT}", "results": [\n{lines}\n]}}\n', len(results)


def export_tuning(path: str | Path, store: Any = None) -> int:
    """Write `tuning_text` to a file, which is replaced as a whole; returns the number of results.  Raises OSError."""
    text, count = tuning_text(store)
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def import_tuning(path: str | Path, store: Any = None) -> int:
    """Keep the results of a file, as if they had been measured here; returns how many are new.

    An existing result for the same kernel, shape, device and version stays.  Raises BadInputs for a file that is no file of
    results, without taking any, and OSError for one that cannot be read, or has more than 256 MiB.
    """
    cache = _store(store)
    content = read_file(path, MAX_FILE_BYTES)
    try:
        imported = _read(content.decode(), FORMAT)
    except ValueError as error:
        raise BadInputs(f"{path}: not results of the tuner: {error}") from None
    new = 0
    for family in dict.fromkeys(each.family for each in imported):
        existing = results_of(cache, family)
        identities = set(map(_identity, existing))
        added = [each for each in imported if each.family == family and _identity(each) not in identities]
        if added:
            # existing results stay, and of the new ones the latest for which there is room
            added = added[-max(0, MAX_RESULTS - len(existing)) :] if len(existing) < MAX_RESULTS else []
            _write(cache, family, [*added, *existing])
            new += sum(_identity(each) not in identities for each in results_of(cache, family))
    return new


def _store(store: Any) -> Any:
    if store is not None:
        return store
    from ..execution.cache.store import default_store

    return default_store()


def _all(store: Any) -> Iterator[Tuning]:
    for entry in list(store.entries()):
        payload = None if entry.is_partial else store.get(entry.key, KIND)
        if payload is not None:
            try:
                yield from _read(payload.decode(), "")
            except ValueError:
                continue


def _read(text: str, form: str) -> list[Tuning]:
    """The results of a payload, or of a file in the form `form`.  Raises ValueError."""
    try:
        content = json.loads(text, parse_constant=_no_number)
        if form and content["format"] != form:
            raise ValueError(f"its format is {content['format']!r}, not {form!r}")
        entries = content["results"]
        if not isinstance(entries, list):
            raise TypeError("results is no list")
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it has no {error}" if isinstance(error, KeyError) else str(error)) from None
    results = []
    for number, each in enumerate(entries, 1):
        try:
            results.append(Tuning.from_fields(each))
        except ValueError as error:
            raise ValueError(f"result {number}: {error}") from None
    return results


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _write(store: Any, family: str, results: Sequence[Tuning]) -> None:
    latest = ",".join(each.to_json() for each in results[-MAX_RESULTS:])
    store.put(_key(family), KIND, f'{{"results": [{latest}]}}'.encode())


def _key(family: str) -> bytes:
    return digest_of([("kernel", "text", family.encode())])


def _identity(result: Tuning) -> tuple[str, str, str]:
    return result.shape, result.device, result.version
