"""What `help` says of the kernels as functions on arrays: every argument, and examples that are run."""

from __future__ import annotations

import doctest
import inspect
import re

import numpy as np
import pytest

from vyre_opt import kernels

SECTIONS = ("Args:", "Returns:", "Raises:", "Example:")


@pytest.mark.parametrize("name", kernels.__all__)
def test_help_has_every_argument_and_an_example(name: str) -> None:
    function = getattr(kernels, name)
    text = inspect.getdoc(function)
    assert text is not None
    is_class = inspect.isclass(function)
    sections = [s for s in SECTIONS if not (is_class and s == "Returns:")]
    assert [line for line in text.splitlines() if line in SECTIONS] == sections
    arguments = text.partition("Args:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^    (\w+): ", arguments, re.MULTILINE) == [*inspect.signature(function).parameters]
    assert "BadInputs" in text.partition("Raises:")[2]


def test_examples_print_what_is_shown() -> None:
    names = {"np": np, "kernels": kernels}
    for name in kernels.__all__:
        for test in doctest.DocTestFinder(recurse=False).find(
            getattr(kernels, name), name, globs=dict(names)
        ):
            said: list[str] = []
            failed, attempted = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
            assert attempted, name
            assert not failed, "".join(said)
