"""The table of machines, and what a launch waits for there."""

from __future__ import annotations

import pytest

from vyre_opt.scheduling.machines import MACHINES, Limit, limit_of, machine_named, machine_of


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB SXM"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA GeForce GT 710", None),
    ],
)
def test_names_of_drivers(driver: str, name: str | None) -> None:
    machine = machine_named(driver)
    assert (machine.name if machine else None) == name


def test_machines_have_plausible_figures() -> None:
    """Each has a source, its name is its own, and more arithmetic than bytes: else a unit was mistaken."""
    assert len({machine.name for machine in MACHINES}) == len(MACHINES)
    for machine in MACHINES:
        assert "data sheet" in machine.source
        assert 1e11 < machine.bytes_per_s < 1e13
        assert all(peak > machine.bytes_per_s for peak in machine.operations_per_s.values())
        assert machine_of(machine.architecture).architecture == machine.architecture


def test_the_larger_time_is_the_limit() -> None:
    """An H100 moves 3.35 bytes while it computes 67 operations of f32."""
    machine = machine_of("sm_90")
    assert limit_of(3_350_000, {"f32": 66_000_000}, machine) == Limit("memory", 1e-6)
    assert limit_of(3_350_000, {"f32": 134_000_000}, machine) == Limit("f32", 2e-6)
    assert limit_of(3_350_000, {"f32": 1, "f64": 68_000_000}, machine) == Limit("f64", 2e-6)
    assert limit_of(3_350_000, {"tf32 of no table": 1 << 90}, machine).unit == "memory"
