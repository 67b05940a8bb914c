"""What passes keep: analyses by what computes them and the program, expansions of kernels by the request, but for names."""

from __future__ import annotations

from dataclasses import fields

import pytest
from support.each import each

from vyre_opt import parse
from vyre_opt.ir import Buffer, Expansion, ExpansionRequest, Program
from vyre_opt.kernels.named import expand
from vyre_opt.passes import PassManager, expand_kernels
from vyre_opt.passes.context import Analyses


class Named:
    """Two analyses may have one name, by which passes say that both still hold."""

    name = "facts"

    def __init__(self, fact: str) -> None:
        self.fact = fact

    def __call__(self, program: Program) -> tuple[str, str]:
        return self.fact, program.name


def test_an_analysis_is_of_its_function_and_program() -> None:
    analyses, one, other = Analyses(), Named("one"), Named("other")
    programs = [Program("p", (32, 1, 1)), Program("p", (32, 1, 1)), Program("q", (32, 1, 1))]
    for _ in range(2):
        for program in programs:
            for analysis in (one, other):
                assert analyses.get(analysis, program) == (analysis.fact, program.name)
    assert analyses.get(one, programs[0]) is not analyses.get(one, programs[1])
    assert analyses.names == {"facts"}
    kept = analyses.get(one, programs[0])
    analyses.drop(preserves=["facts"])
    assert analyses.get(one, programs[0]) is kept
    analyses.drop()
    assert not analyses.names


STAGES = """vyre 2
pipeline @p {{
  buffer @a : f32[4096] read
  buffer @b : f32[4096] write
  buffer @c : {dtype}[{count}] read
  buffer @d : {dtype}[{count}] write
  math.softmax(@a, @b) {{columns = 64}}
  {kernel}(@c, @d){params}
}}
"""
FIRST = {"dtype": "f32", "count": "4096", "kernel": "math.softmax", "params": " {columns = 64}"}


def programs_of(text: str) -> tuple[int, list[ExpansionRequest]]:
    """How many programs two stages launch, and what was asked for."""
    module = parse(text)
    requests: list[ExpansionRequest] = []

    def record(request: ExpansionRequest) -> Expansion:
        requests.append(request)
        return expand(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expand_kernels, "expand", record)
        PassManager("expand_kernels").run(module)
    launched = {stage.program for stage in module.pipelines["p"].stages}  # type: ignore[union-attr]
    return len(launched), requests


def test_stages_share_a_program_if_all_that_it_is_made_of_is_equal() -> None:
    """A change for each field of a request, so that a field without one fails here; names of buffers are for messages."""
    count, (request,) = programs_of(STAGES.format(**FIRST))
    assert count == 1
    # an expansion gets of a buffer what the key has
    assert request.buffers == [Buffer(b.name, b.dtype, b.count, None) for b in request.buffers]
    other: dict[str, list[dict[str, str]]] = {
        "kernel": [{"kernel": "scan.prefix", "params": ""}],
        "buffers": [{"dtype": "f16"}, {"count": "8192"}],
        "params": [{"params": " {columns = 32}"}],
        "schedule": [{"params": " {columns = 64, schedule_rows = 8}"}],
        "target": [],  # one for all stages of a pass
        "owns_grid": [],  # as every stage does
        "workers": [],  # nobody knows them when a pass runs
        "is_shared": [],  # a pass may change what it gets
    }
    assert other.keys() == {field.name for field in fields(ExpansionRequest)}

    def is_another(changes: dict[str, str]) -> None:
        count, requests = programs_of(STAGES.format(**{**FIRST, **changes}))
        assert count == len(requests) == 2
        assert requests[0].target == requests[1].target
        assert requests[0].owns_grid
        assert requests[1].owns_grid

    each([changes for cases in other.values() for changes in cases], is_another)


def test_a_program_over_an_open_size_is_of_a_buffer_by_its_name() -> None:
    """Its grid has the length of that buffer."""
    text = """vyre 2
pipeline @p {
  buffer @a : u8[?] read
  buffer @c : u8[?] read
  buffer @b : u8[4096]
  buffer @d : u8[4096] write
  decode.hex(@a, @b)
  decode.hex(@c, @d)
}
"""
    assert programs_of(text)[0] == 2
