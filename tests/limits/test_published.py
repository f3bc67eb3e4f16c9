"""Published figures: which GPU they are for, and that each is sound."""

import re

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.families import declared
from hostbench.limits import published
from tests.test_layers import PYPROJECT


def test_the_file_travels_in_the_wheel() -> None:
    package_data = PYPROJECT["tool"]["setuptools"]["package-data"]
    assert package_data["hostbench.limits"] == ["published.toml"]
    assert len(published.shipped()) == 44
    for figure in published.shipped():
        assert 0 < figure.low_gb_per_s <= figure.high_gb_per_s < 1e4, figure
        assert all(re.fullmatch("[a-z0-9]+", word) for word in figure.words), figure


@pytest.mark.parametrize(
    ("gpu", "direction", "expected"),
    [
        ("NVIDIA H200", "host_to_device", "55.43 GB/s for H200"),
        ("NVIDIA A100-SXM4-40GB", "host_to_device", "25.94 to 26.19 GB/s for A100"),
        ("NVIDIA H100 80GB HBM3", "device_to_host", "a floor of 48 GB/s for H100"),
        ("Tesla V100-SXM2-32GB", "host_to_device", "a floor of 9 to 10 GB/s for V100"),
    ],
)
def test_bands_of_known_gpus(gpu: str, direction: str, expected: str) -> None:
    assert str(published.band(gpu, direction)).startswith(f"{expected} (")


@pytest.mark.parametrize("gpu", [None, "", "NVIDIA B200", "NVIDIA RTX 4080", "XH200"])
def test_an_unknown_gpu_has_none(gpu: str | None) -> None:
    assert published.band(gpu, "host_to_device") is None


def test_only_pinned_and_peer_copies_are_comparable() -> None:
    def way(name: str, **axes: AxisValue) -> str | None:
        work = declared(f"transfer.{name}")
        assert work is not None
        values = {axis: choices[0] for axis, choices in work.axes.items()} | axes
        return work.options(Case(work.name, values)).published

    assert way("host_to_device", memory="pinned") == "host_to_device"
    assert way("device_to_host", memory="registered") == "device_to_host"
    assert way("both_ways", memory="pinned") == "both_ways"
    assert way("between_devices", route="peer") == "between_devices"
    assert way("host_to_device", memory="pageable") is None
    assert way("to_device", memory="pinned") is None
    assert way("between_devices", route="through_host") is None
    assert way("on_device") is None
