"""Processors that packs have code for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vyre_opt.packs import target


@pytest.fixture
def aarch64(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The level of packs whose programs an emulator runs, on the threads of this process."""
    from support import aarch64 as emulator  # not where the tests of GPUs run, which have no emulator

    emulator.failures.clear()
    monkeypatch.setattr(target, "levels_of_this_machine", lambda: ("aarch64",))
    monkeypatch.setattr(target, "link", emulator.link)
    monkeypatch.setattr(target, "use_code", lambda pool: None)
    yield "aarch64"
    assert not emulator.failures
