"""What other tools call a target, a pass or a form of output gets the word for it here."""

from __future__ import annotations

import click
import pytest

from vyre_opt import dispatcher
from vyre_opt.cli.emit import EMIT_FORMATS
from vyre_opt.cli.opt import TARGETS, check_target
from vyre_opt.cli.opt import command as opt
from vyre_opt.cli.run import command as run
from vyre_opt.execution import BadInputs
from vyre_opt.lowering.nvptx.targets import TargetError, gpu
from vyre_opt.passes.pipeline_text import DEFAULT
from vyre_opt.passes.registry import PassError, find_pass, pass_names
from vyre_opt.syntax.synonyms import ROWS

KNOWN = {
    "target": TARGETS,
    "run_target": ("ref", "cpu", "cuda"),
    "pass": (*pass_names(), DEFAULT),
    "emit": EMIT_FORMATS,
}


def usage_error(command: click.Command, option: str) -> str:
    with pytest.raises(click.UsageError) as caught:
        command.main([option, "-"], standalone_mode=False)
    return caught.value.format_message()


@pytest.mark.parametrize("context", KNOWN)
def test_each_answer_exists(context: str) -> None:
    """So that the table cannot name what has been renamed."""
    assert [row for row in ROWS if row.context == context and row.here not in KNOWN[context]] == []


def test_each_target_is_answered() -> None:
    """By vyre-opt, and where a GPU is named in Python."""
    for row in (row for row in ROWS if row.context == "target"):
        with pytest.raises(ValueError, match="unknown target") as caught:
            check_target(row.word)
        assert str(caught.value).endswith(row.help)
        with pytest.raises(TargetError) as unknown:
            gpu(row.word)
        assert str(unknown.value).endswith(row.help)


def test_each_target_to_run_on_is_answered() -> None:
    """By vyre-run, and where a dispatcher is named in Python."""
    for row in (row for row in ROWS if row.context == "run_target"):
        assert usage_error(run, f"--target={row.word}").endswith(f"{row.help}.")
        with pytest.raises(BadInputs) as caught:
            dispatcher(row.word)
        assert str(caught.value).endswith(row.help)


def test_each_pass_is_answered() -> None:
    for row in (row for row in ROWS if row.context == "pass"):
        with pytest.raises(PassError) as caught:
            find_pass(row.word)
        assert str(caught.value) == f"unknown pass {row.word}; {row.help}"


def test_each_form_of_output_is_answered() -> None:
    for row in (row for row in ROWS if row.context == "emit"):
        assert usage_error(opt, f"--emit={row.word}").endswith(f"{row.help}.")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("NVIDIA H100-SXM5-80GB", "sm_90"),
        ("rtx 4090", "sm_89"),
        ("GeForce RTX 3090", "sm_86"),
        ("Tesla_V100", "sm_70"),
    ],
)
def test_a_gpu_is_known_by_its_full_name(name: str, target: str) -> None:
    """As tools print it, with its maker, its series and its memory."""
    with pytest.raises(ValueError, match=f"is `{target}` here"):
        check_target(name)
