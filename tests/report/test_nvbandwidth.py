"""nvbandwidth's JSON beside a run: every oddity of the layout, and what is not its.

tests/data/nvbandwidth/two_gpus.json is written by hand after the source of v0.8; a later version
might write numbers and no outer object, as the odd ones below.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from hostbench.cli.entry import main
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, DataError
from hostbench.families import load
from hostbench.report import nvbandwidth
from hostbench.report.write import values
from hostbench.store import archive
from tests.fakes.builders import copy_case, record, run
from tests.stored import frame_of

TWO = Path(__file__).parent.parent / "data" / "nvbandwidth" / "two_gpus.json"


def on_cuda(nbytes: int, seconds: float) -> Any:
    case = copy_case(device="cuda", nbytes=nbytes, memory="pinned", blocking=False)
    return record(case, seconds=seconds)


def test_each_test_has_a_row_beside_our_largest_copy() -> None:
    rows = frame_of(run([on_cuda(1 << 20, 1e-4), on_cuda(1 << 28, 5e-3)], launches=1))
    table = values(nvbandwidth.beside(nvbandwidth.read(TWO), rows))
    assert [(row["test"], row["lowest"], row["highest"], row["unit"]) for row in table] == [
        ("host_to_device_memcpy_ce", 55.43, 55.5, "GB/s"),
        ("device_to_host_memcpy_ce", 55.06, 55.06, "GB/s"),
        ("host_to_device_bidirectional_memcpy_ce", 48.1, 48.2, "GB/s"),
        ("device_to_device_memcpy_write_ce", 396.1, 396.2, "GB/s"),
        ("device_to_device_bidirectional_memcpy_read_ce", 784, 786, "GB/s"),
        ("host_device_latency_sm", 650.5, 651, "ns"),
        ("device_local_copy", 1850, 1851, "GB/s"),
        ("all_to_host_memcpy_ce", None, None, "GB/s"),
        ("host_to_device_memcpy_sm", None, None, "GB/s"),
        ("device_to_host_memcpy_sm", None, None, "GB/s"),
    ]
    assert table[0]["nbytes"] == 1 << 28
    assert table[0]["gb_per_s"] == pytest.approx((1 << 28) / 5e-3 / 1e9)
    assert table[0]["case"] == str(on_cuda(1 << 28, 1.0).case)
    assert [row["gb_per_s"] for row in table[1:]] == [None] * 9


@pytest.mark.parametrize(
    "text",
    [
        "",
        TWO.read_text()[:900],
        '{"nvbandwidth": {"error": "no GPU found"}}',
        "[" * 100_000,
        b"\xff\xfe{",
    ],
)
def test_what_is_not_nvbandwidths_is_refused_in_one_line(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "given.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as caught:
        nvbandwidth.read(file)
    assert str(caught.value).startswith(str(file)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("cell", [None, "x", "N/A", "-1", "inf"])
def test_an_odd_cell_is_no_number(cell: Any, tmp_path: Path) -> None:
    test = {"name": "x", "status": "Passed", "bandwidth_matrix": [[cell], ["2"]]}
    tmp_path.joinpath("odd.json").write_text(json.dumps({"nvbandwidth": {"testcases": [test]}}))
    [read] = nvbandwidth.read(tmp_path / "odd.json")
    assert read.values == [2.0]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = archive.write(tmp_path, run([on_cuda(1 << 28, 5e-3)], launches=1))
    before = path.read_bytes()
    shown = ["report", "--run", "2026", "--results", str(tmp_path), "--nvbandwidth"]
    assert main([*shown, str(TWO)]) == EXIT_OK
    assert "55.43 to 55.5 GB/s  53.69 GB/s at 256MiB" in capsys.readouterr().out
    assert main([*shown, str(TWO), "--format", "json"]) == EXIT_OK
    assert len(json.loads(capsys.readouterr().out)["nvbandwidth"]) == 10
    assert main([*shown, __file__]) == EXIT_FAILED
    assert main([*shown, "missing.json"]) == EXIT_USAGE
    assert [*tmp_path.rglob("*.gz")] == [path] and path.read_bytes() == before


def test_the_axes_that_make_it_the_same_are_choices_of_the_workload() -> None:
    tests = [(work, *pair) for work in load().values() for pair in work.nvbandwidth.items()]
    assert len({test for _, test, _ in tests}) == len(tests) == 4
    for work, _, axes in tests:
        for axis, value in axes.items():
            assert value in work.axes[axis], (work.name, axis)
