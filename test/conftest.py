"""Fixtures of all tests: the command-line tools as processes, and which tests a run has.

    pytest              the plain tests: no slow one, none of the folder `campaign`, and of long tables a few cases each
    pytest --slow       the tests that slow_tests.txt lists, and cases of tables beyond the first; files that are named run theirs without it
    pytest --campaign   the rest: the folder `campaign`, and the other cases of those tables

The mark `gpu` is for tests that need a GPU.  Without one they are skipped, and the run says at its end how many.
"""

import gc
import os
import signal
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest
from support import quick
from support.budget import Budget, is_whole_run
from support.slow_tests import SlowTests, is_slow
from support.tools import run_tool
from support.unchecked_results import unchecked_results as unchecked

from vyre_opt.execution import dispatcher as dispatcher_module
from vyre_opt.execution.cache import ir_results

Ran = subprocess.CompletedProcess
CAMPAIGNS = Path(__file__).parent / "campaign"


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


@pytest.fixture
def unchecked_results() -> Iterator[None]:
    """Passes keep wrong results, for tests of what else notices them."""
    with unchecked():
        yield


@pytest.fixture(autouse=True)
def passes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes make is not taken from the cache, in this process: tests replace their functions, and count their work."""
    monkeypatch.setattr(ir_results, "is_enabled", False)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a compile cache of the test's own, in which there is nothing.

    It is that of all dispatchers that are made in the test, of shared ones too.
    """
    folder = tmp_path / "cache"
    monkeypatch.setenv("VYRE_CACHE_DIR", str(folder))
    monkeypatch.setattr(dispatcher_module, "_shared", {})
    return folder


@cache
def no_gpu() -> str:
    """Why no GPU can be used; "" if one can."""
    from vyre_opt.execution import BackendError
    from vyre_opt.targets.cuda.device import device

    try:
        device()
    except BackendError as missing:
        return str(missing)
    return ""


_LEFT_OUT: pytest.StashKey[int] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", metavar="K/N", help="run the K-th of N shares of the tests, chosen by name")
    parser.addoption("--campaign", action="store_true", help="run what the plain run leaves out, for hours")
    parser.addoption("--slow", action="store_true", help="run the slow tests that the plain run leaves out")
    parser.addoption("--record-slow", action="store_true", help="write which tests of this run are slow")
    parser.addoption(
        "--level", type=int, choices=range(4), help="of LLVM for the cpu target; 1, and 3 in campaigns"
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ["VYRE_REFUSED_RESULT"] = "error"
    from vyre_opt.targets.cpu import dispatcher as cpu

    gc.disable()  # until there are all tests, which are no garbage
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU, its driver and PyCUDA")
    config.addinivalue_line("markers", "slow: left out of the plain run; run by `pytest --slow`")
    config.addinivalue_line("markers", "campaign: left out of the plain run; run by `pytest --campaign`")
    quick.whole_tables = config.option.campaign
    if not hasattr(config, "workerinput"):  # the workers of a run inherit its folder
        _use_a_cache_of_the_tests(config)
        if is_whole_run(config) and not (config.option.campaign or config.option.slow):
            config.pluginmanager.register(Budget())
        if config.option.record_slow:
            config.pluginmanager.register(SlowTests())
    # What is compared is values, so plain tests do with a third of the time of LLVM.  Tools in processes of their own
    # have the level that users have.
    level = config.option.level
    cpu.DEFAULT_LEVEL = level if level is not None else 3 if config.option.campaign else 1


def _use_a_cache_of_the_tests(config: pytest.Config) -> None:
    """Compiled code of this run for all its workers; on a developer's machine also that of earlier runs.

    Its keys have the compiler's sources in them, so that nothing old is found; the user's own cache stays as it is.
    """
    if "CI" in os.environ or not hasattr(config, "cache"):  # of the plugin cacheprovider
        folder = tempfile.TemporaryDirectory(prefix="vyre-opt-test-cache-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["VYRE_CACHE_DIR"] = folder.name
    else:
        os.environ["VYRE_CACHE_DIR"] = str(config.cache.mkdir("compiled"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == CAMPAIGNS and not config.option.campaign else None


def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[pytest.Item] | None:
    """Nothing of a function that is for campaigns, where there is none."""
    if collector.config.option.campaign or not (isfunction(obj) and name.startswith("test")):
        return None
    return [] if any(mark.name == "campaign" for mark in getattr(obj, "pytestmark", ())) else None


def _share(text: str) -> tuple[int, int]:
    """`2/5` as numbers.  Raises UsageError."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--share takes K/N, 1 <= K <= N, such as 2/5, not {text}")
    return int(number), int(count)


@pytest.hookimpl(trylast=True)  # after -k and -m have deselected tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _select(config, items, lambda item: _is_of_campaign(item) == config.option.campaign)
    if config.option.slow or not (config.option.campaign or config.option.file_or_dir):
        _select(config, items, lambda item: is_slow(item) == config.option.slow)
    if config.option.share:
        number, count = _share(config.option.share)
        # by a hash of the name: a new test moves no other from share to share
        _select(config, items, lambda item: zlib.crc32(item.nodeid.encode()) % count == number - 1)
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and no_gpu():
        config.stash[_LEFT_OUT] = len(gpu_items)
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {no_gpu()}"))


def pytest_collection_finish() -> None:
    """What is there now stays, so no collection of garbage looks at it: with 10,000 tests one takes half a second."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """So does what a file leaves behind, in caches mostly; and pipes that nobody reads are exceptions again, as Python has it.

    A tool that a test ran in this process has left them to the system, which would end the whole run.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if nextitem is not None and nextitem.path != item.path:
        gc.freeze()


def _is_of_campaign(item: pytest.Item) -> bool:
    return CAMPAIGNS in item.path.parents or item.get_closest_marker("campaign") is not None


def _select(config: pytest.Config, items: list[pytest.Item], chosen: Callable[[pytest.Item], object]) -> None:
    """Leave the chosen items in the list, in place."""
    selected, others = [], []
    for item in items:
        (selected if chosen(item) else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = selected


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(f"LEFT OUT: {left_out} tests that need a GPU ({no_gpu()})", yellow=True)
