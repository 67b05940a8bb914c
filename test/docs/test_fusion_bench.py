"""What bench/fusion_threshold.py makes of its figures, and the pipelines that it draws."""

from __future__ import annotations

from drawn_pipelines import KINDS, draw_pipeline
from fusion_threshold import Sample, Unit, kept_apart, outcomes, result_of

from vyre_opt import parse
from vyre_opt.analysis.launch_flow import LaunchDataflow
from vyre_opt.ir import verify


def test_drawn_pipelines_verify_and_their_ranks_are_known() -> None:
    for seed in range(2 * len(KINDS)):
        name, text = draw_pipeline(seed, 1 << 20)
        assert draw_pipeline(seed, 1 << 20) == (name, text)
        module = parse(text)
        assert not [each for each in verify(module) if each.severity == "error"]
        pipeline = module.pipelines["main"]
        assert LaunchDataflow(module).counts(pipeline).keys() >= pipeline.buffers.keys()
        assert all(b.count for b in pipeline.buffers.values() if b.name not in ("table", "accept"))


def sample(name: str, elements: float, joined: float, apart: float) -> Sample:
    return Sample(name, [Unit("elements", elements, (1,))], {(): [joined] * 4, (1,): [apart] * 4}, [joined])


def test_a_threshold_is_found_where_the_large_ones_lose_and_only_there() -> None:
    lose = [sample(f"large {k}", 4096.0 * (k + 1), 4.0, 2.0) for k in range(4)]
    gain = [sample(f"small {k}", 16.0 * (k + 1), 1.0, 2.0) for k in range(4)]
    by_threshold = {each.threshold: each for each in outcomes([*lose, *gain], "elements")}
    best = max(by_threshold.values(), key=lambda each: each.mean)
    assert 64 < best.threshold < 4096
    assert (best.apart, best.worst) == (4, 1.0)
    assert abs(best.mean - 2**0.5) < 1e-12
    table, target = result_of([*lose, *gain], "cpu")
    assert target["met"]
    assert best.row() in table["rows"]
    _, target = result_of([*gain, lose[0]], "cpu")
    assert not target["met"]  # the other half has none of the kind


def test_launches_above_the_threshold_are_kept_apart() -> None:
    units = [Unit("bytes", 10.0, (1, 2)), Unit("bytes", 20.0, (4,)), Unit("elements", 99.0, (7,))]
    assert [kept_apart(units, "bytes", t) for t in (5, 10, 20)] == [(1, 2, 4), (4,), ()]
