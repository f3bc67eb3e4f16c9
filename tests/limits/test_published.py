"""Published figures: which GPU they are for, the user's own, and a file that is wrong."""

from pathlib import Path

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.families import declared
from hostbench.limits import published
from tests.test_layers import PYPROJECT

GOOD = """\
[[figure]]
hardware = "My card"
words = ["card", "9000"]
link = "PCIe Gen6 x16"
direction = "host_to_device"
low_gb_per_s = 100
high_gb_per_s = 101.5
kind = "measured"
source = "our lab"
"""


def load(folder: Path, text: str | bytes) -> tuple[list[published.PublishedFigure], list[str]]:
    data = text if isinstance(text, bytes) else text.encode()
    (folder / published.FILE).write_bytes(data)
    warnings: list[str] = []
    found = published.load(folder, warnings.append)
    assert found[: len(published.shipped())] == published.shipped()
    return list(found[len(published.shipped()) :]), warnings


def shipped_band(gpu: str, direction: str) -> str:
    return str(published.band(published.shipped(), gpu, direction))


def test_the_file_travels_in_the_wheel() -> None:
    package_data = PYPROJECT["tool"]["setuptools"]["package-data"]
    assert package_data["hostbench.limits"] == [published.FILE]
    assert len(published.shipped()) == 44


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
    assert shipped_band(gpu, direction).startswith(f"{expected} (")


@pytest.mark.parametrize("gpu", [None, "", "NVIDIA B200", "NVIDIA RTX 4080", "XH200"])
def test_an_unknown_gpu_has_none(gpu: str | None) -> None:
    assert published.band(published.shipped(), gpu, "host_to_device") is None


def test_the_users_figures_join(tmp_path: Path) -> None:
    more, warnings = load(tmp_path, GOOD)
    assert warnings == []
    assert [one.hardware for one in more] == ["My card"]
    found = published.band(more, "Card X-9000 Ti", "host_to_device")
    assert found is not None
    assert (found.low_gb_per_s, found.high_gb_per_s) == (100, 101.5)
    assert str(found) == "100 to 101.5 GB/s for My card (our lab)"
    assert published.band(more, "Card X-900", "host_to_device") is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("100\n", '"fast"\n', "Expected `float`, got `str` - at `$.low_gb_per_s`"),
        ("100\n", "200\n", "'low_gb_per_s' is 200.0; it must be at most high_gb_per_s, 101.5"),
        ("source", 'colour = "red"\nsource', "unknown field `colour`"),
    ],
)
def test_a_wrong_entry_is_named_and_the_others_stand(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    more, warnings = load(tmp_path, GOOD.replace(old, new, 1) + "\n" + GOOD)
    assert [one.hardware for one in more] == ["My card"]
    (warning,) = warnings
    assert warning.startswith(f"{tmp_path / published.FILE}: figure 1: ")
    assert said in warning and "mend it" in warning


@pytest.mark.parametrize("text", ["[[figure]", "figure = 3", b"\xff\xfe"])
def test_a_file_that_is_no_list_of_figures(tmp_path: Path, text: str | bytes) -> None:
    more, warnings = load(tmp_path, text)
    assert more == []
    (warning,) = warnings
    assert str(tmp_path / published.FILE) in warning and "shipped figures stand alone" in warning


def test_only_pinned_and_peer_copies_are_comparable() -> None:
    def way(name: str, **axes: AxisValue) -> str | None:
        work = declared(f"transfer.{name}")
        assert work is not None
        values = {axis: choices[0] for axis, choices in work.axes.items()} | axes
        return work.options(Case.of(work.name, values)).published

    assert way("host_to_device", memory="pinned") == "host_to_device"
    assert way("device_to_host", memory="registered") == "device_to_host"
    assert way("both_ways", memory="pinned") == "both_ways"
    assert way("between_devices", route="peer") == "between_devices"
    assert way("host_to_device", memory="pageable") is None
    assert way("to_device", memory="pinned") is None
    assert way("between_devices", route="through_host") is None
    assert way("on_device") is None
