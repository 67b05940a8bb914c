"""Fixtures of all tests: the command-line tools as processes, and the mark `gpu` of tests that need a GPU.

Without a GPU those tests are skipped, and the run says at its end how many.
"""

import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.tools import run_tool

Ran = subprocess.CompletedProcess


def _runner(tool: str) -> Callable[..., Ran]:
    def run(*args: object, text: str | bytes = "", cwd: Path | None = None, env: Any = None) -> Ran:
        """Run the tool with `text` on stdin."""
        stdin = text if isinstance(text, bytes) else text.encode()
        return run_tool(tool, [*map(str, args)], stdin, cwd, os.environ if env is None else env)

    return run


@pytest.fixture(scope="session")
def run_opt() -> Callable[..., Ran]:
    """`run_opt("--pass=cse", path)`: vyre-opt in a process of its own."""
    return _runner("vyre-opt")


@pytest.fixture(scope="session")
def run_run() -> Callable[..., Ran]:
    """`run_run(path, "--grid=4")`: vyre-run in a process of its own."""
    return _runner("vyre-run")


@pytest.fixture(scope="session")
def run_cache() -> Callable[..., Ran]:
    """`run_cache("info")`: vyre-cache in a process of its own."""
    return _runner("vyre-cache")


@pytest.fixture(scope="session")
def run_scan() -> Callable[..., Ran]:
    """`run_scan("needle", path)`: vyre-scan in a process of its own."""
    return _runner("vyre-scan")


@pytest.fixture(scope="session")
def run_reduce() -> Callable[..., Ran]:
    """`run_reduce(path, "--test", command)`: vyre-reduce in a process of its own."""
    return _runner("vyre-reduce")


@cache
def no_gpu() -> str:
    """Why no GPU can be used; "" if one can."""
    from vyre_opt.cuda.device import device
    from vyre_opt.runtime.dispatcher import BackendError

    try:
        device()
    except BackendError as missing:
        return str(missing)
    return ""


_LEFT_OUT: pytest.StashKey[int] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", metavar="K/N", help="run the K-th of N shares of the tests, chosen by name")


def pytest_configure(config: pytest.Config) -> None:
    # A cache of this run's own: it finds nothing from before, and leaves nothing in the user's.
    folder = tempfile.mkdtemp(prefix="vyre-opt-test-cache-")
    os.environ["VYRE_CACHE_DIR"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU, its driver and PyCUDA")
    config.addinivalue_line("markers", "slow: a campaign or an exhaustive table; run by `pytest -m slow`")


def _share(text: str) -> tuple[int, int]:
    """`2/5` as numbers.  Raises UsageError."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--share takes K/N, 1 <= K <= N, such as 2/5, not {text}")
    return int(number), int(count)


@pytest.hookimpl(trylast=True)  # after -k and -m have deselected tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.share:
        number, count = _share(config.option.share)
        # by a hash of the name: a new test moves no other from share to share
        selected = [item for item in items if zlib.crc32(item.nodeid.encode()) % count == number - 1]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
        items[:] = selected
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and no_gpu():
        config.stash[_LEFT_OUT] = len(gpu_items)
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {no_gpu()}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(f"LEFT OUT: {left_out} tests that need a GPU ({no_gpu()})", yellow=True)
