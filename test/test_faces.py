"""`dir(vyre_opt)` is one screen, and each public name has a place there or in a package that shows it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import vyre_opt
from vyre_opt.faces import names

FACES = vars(vyre_opt)["_FACES"]
EXPORTS = vars(vyre_opt)["_EXPORTS"]


def test_the_package_shows_one_screen() -> None:
    """24 lines of 80 characters, and what most programs need among them."""
    shown = dir(vyre_opt)
    assert len(repr(shown)) <= 24 * 80
    assert {"compile", "run", "kernels", "Scanner", "program", "pipeline", "Read", "f32", "exp", *FACES} <= {
        *shown
    }
    assert not {"add", "xor", "PassManager", "LaunchFusionPlan", "pick_config"} & {*shown}
    for name in shown:
        assert getattr(vyre_opt, name) is not None


def test_every_public_name_has_a_place() -> None:
    placed = {*dir(vyre_opt), *(name for face in FACES for name in dir(getattr(vyre_opt, face)))}
    assert EXPORTS.keys() - placed == set()


@pytest.mark.parametrize("face", FACES)
def test_names_of_a_package_are_those_of_the_whole(face: str) -> None:
    """So both are the same class in an `except` and an `isinstance`."""
    package = import_module(f"vyre_opt.{face}")
    own = [name for name in dir(package) if name in EXPORTS]
    assert own
    for name in own:
        assert getattr(package, name) is getattr(vyre_opt, name)
    with pytest.raises(AttributeError, match=f"vyre_opt.{face}' has no attribute 'no_such'"):
        package.no_such  # noqa: B018


def test_modules_of_a_package_stay_what_they_are() -> None:
    """A name that is a module's would be that module, once somebody imports it."""
    assert "call_workload" not in names("tuning")
    assert "dispatcher" not in names("execution")


def test_a_package_is_loaded_when_it_is_asked_for() -> None:
    code = (
        "import sys, vyre_opt\n"
        "assert 'vyre_opt.passes' not in sys.modules\n"
        "from vyre_opt.passes import PassManager\n"
        "from vyre_opt.ir import parse\n"
        "assert 'vyre_opt.tuning' not in sys.modules\n"
        "assert vyre_opt.PassManager is PassManager and vyre_opt.parse is parse\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("face", FACES)
def test_type_checkers_find_the_names(face: str) -> None:
    """A stub that names a module which is not there would make them silent."""
    package = import_module(f"vyre_opt.{face}")
    stub = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text())
    for each in stub.body:
        if isinstance(each, ast.ImportFrom):
            module = import_module(f"{'.' * each.level}{each.module}", package.__name__)
            assert all(getattr(module, name.name) is getattr(package, name.name) for name in each.names)
