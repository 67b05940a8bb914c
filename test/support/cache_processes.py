"""Processes that use one cache folder at once, forked from one that has imported the store."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from vyre_opt.cache_files import folder
from vyre_opt.cache_files.secret import open_cache
from vyre_opt.execution.cache.store import Store

from .cache_faults import FailingSystem

__all__ = ["in_processes", "key_of_folder", "put_and_die", "use_together"]

TIMEOUT = 120


@cache
def _context() -> Any:
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def in_processes(count: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """What `work(*args)` returns in each of `count` processes that begin together."""
    barrier, results = _context().Barrier(count), _context().Queue()
    processes = [_context().Process(target=_begin, args=(barrier, results, work, args)) for _ in range(count)]
    for process in processes:
        process.start()
    collected = [results.get(timeout=TIMEOUT) for _ in processes]
    for process in processes:
        process.join(TIMEOUT)
        assert process.exitcode == 0
    return collected


def _begin(barrier: Any, results: Any, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    barrier.wait(TIMEOUT)
    results.put(work(*args))


def key_of_folder(path: Path) -> bytes:
    with open_cache(path, create=True) as (_, secret):
        return secret


def use_together(path: Path, payloads: dict[bytes, bytes], rounds: int) -> int:
    """Put and get all payloads again and again; the number of hits.  A wrong payload is an AssertionError."""
    store, hits = Store(path), 0
    for _ in range(rounds):
        for key, payload in payloads.items():
            seen = store.get(key, "cpu")
            assert seen in (None, payload)
            hits += seen is not None
            store.put(key, "cpu", payload)
    return hits


def put_and_die(path: Path, key: bytes, payload: bytes, call: int) -> bool:
    """Put a payload in a process that is killed at its `call`-th call of the file system; whether it was."""
    process = _context().Process(target=_put, args=(path, key, payload, call))
    process.start()
    process.join(TIMEOUT)
    assert process.exitcode in (0, -signal.SIGKILL)
    return bool(process.exitcode)


def _put(path: Path, key: bytes, payload: bytes, call: int) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(folder, "os", FailingSystem(call, die))  # noqa: B010, mypy knows that it is a module
    Store(path).put(key, "cpu", payload)
