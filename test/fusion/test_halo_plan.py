"""What a producer must not do whose elements each workgroup would compute again."""

from __future__ import annotations

from pathlib import Path

import pytest

from vyre_opt.ir import parse
from vyre_opt.passes import PassManager

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines" / "halo_of_1.vyre"


@pytest.mark.parametrize(
    ("inserted", "why"),
    [
        ("", ""),
        ('debug_print "here"', "it has an op debug_print"),
        ('%fine = const true : bool assert %fine, "here"', "it has an op assert"),
    ],
)
def test_a_producer_that_prints_or_may_stop_is_not_run_again(inserted: str, why: str) -> None:
    """Each line would be printed by several workgroups."""
    text = EXAMPLE.read_text()
    head, _, rest = text.partition("program @smooth")
    end = head.rindex("}")
    module = parse(f"{head[:end]}{inserted}\n}}\n\nprogram @smooth{rest}")
    remarks = [r for r in PassManager("launch_fusion").run(module).remarks if r.pass_name == "launch_fusion"]
    assert any(r.kind == "applied" for r in remarks) == (not why)
    assert any(why in r.message for r in remarks)
