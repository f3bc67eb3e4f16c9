"""nvbandwidth's JSON: every oddity of the layout, kept beside our runs and never taken for one.

tests/data/nvbandwidth/two_gpus.json is written by hand after the source of v0.8; newer.json is what
a later version might write: numbers, no outer object, the buffer's size.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hostbench.cli.entry import main
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE, DataError
from hostbench.families import load
from hostbench.report.questions import answers
from hostbench.report.rows import rows_of
from hostbench.store import archive, nvbandwidth, peers
from tests.fakes.builders import copy_case, record, run
from tests.stored import read_tree

DATA = Path(__file__).parent.parent / "data" / "nvbandwidth"
TWO, NEWER = DATA / "two_gpus.json", DATA / "newer.json"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


def read(results: Path) -> pd.DataFrame:
    tree = read_tree(results)
    assert tree.warnings == []
    return tree.frame


def test_what_each_test_became(results: Path) -> None:
    peers.add(results, "box", TWO)
    rows = read(results)
    found = [
        (row["workload"], row["status"], None if pd.isna(row["value"]) else row["value"])
        for row in rows.to_dict("records")
    ]
    other = "nvbandwidth."
    assert found == [
        ("transfer.host_to_device", "ok", 55.43),
        ("transfer.host_to_device", "ok", 55.5),
        ("transfer.device_to_host", "ok", 55.06),
        ("transfer.device_to_host", "skipped", None),
        (f"{other}host_to_device_bidirectional_memcpy_ce", "ok", 48.1),
        (f"{other}host_to_device_bidirectional_memcpy_ce", "ok", 48.2),
        ("transfer.between_devices", "ok", 396.1),
        ("transfer.between_devices", "ok", 396.2),
        (f"{other}device_to_device_bidirectional_memcpy_read_ce", "ok", 784),
        (f"{other}device_to_device_bidirectional_memcpy_read_ce", "ok", 786),
        (f"{other}host_device_latency_sm", "ok", 650.5),
        (f"{other}host_device_latency_sm", "ok", 651),
        ("transfer.on_device", "ok", 1850),
        ("transfer.on_device", "ok", 1851),
        (f"{other}all_to_host_memcpy_ce", "skipped", None),
        (f"{other}host_to_device_memcpy_sm", "failed", None),
        (f"{other}device_to_host_memcpy_sm", "failed", None),
    ]
    reasons = rows["reason"].dropna().to_list()
    assert reasons == [
        "nvbandwidth gives N/A",
        "nvbandwidth waived it on this machine",
        "nvbandwidth: status Error",
        "nvbandwidth: status Running",
    ]


def test_a_whole_row(results: Path) -> None:
    peers.add(results, "box", TWO)
    first = read(results).to_dict("records")[0]
    expected = {
        "machine": "box",
        "hardware": "NVIDIA H200",
        "device": "cuda",
        "driver": "580.95.05",
        "family": "transfer",
        "case": "transfer.host_to_device[device=cuda,memory=pinned,blocking=False,gpu=0]",
        "version": "v0.8",
        "metric": "GB/s",
        "unit": "GB/s",
        "gb_per_s": 55.43,
        "source": "nvbandwidth",
        "scratch": "measured by nvbandwidth, not by hostbench",
        "memory": "pinned",
        "blocking": False,
        "gpu": 0,
    }
    assert {name: first[name] for name in expected} == expected
    for name in ("run_id", "started_at", "commit", "seconds", "nbytes", "launches", "row_gpu"):
        assert pd.isna(first[name]), name


def test_latency_is_no_rate_and_a_peer_has_both_gpus(results: Path) -> None:
    peers.add(results, "box", TWO)
    rows = read(results)
    latency = rows[rows["unit"] == "ns"].iloc[0]
    assert (latency["metric"], latency["value"]) == ("ns", 650.5)
    assert pd.isna(latency["gb_per_s"])
    between = rows[rows["workload"] == "transfer.between_devices"].iloc[0]
    assert (between["row_gpu"], between["gpu"], between["route"]) == (0, 1, "peer")


@pytest.mark.parametrize(
    ("file", "given", "nbytes", "seconds"),
    [
        (NEWER, None, 64 << 20, (64 << 20) / 64e9),
        (NEWER, 1 << 20, 1 << 20, (1 << 20) / 64e9),
        (TWO, 512 << 20, 512 << 20, (512 << 20) / 55.43e9),
    ],
)
def test_seconds_need_the_buffers_size(
    results: Path, file: Path, given: int | None, nbytes: int, seconds: float
) -> None:
    peers.add(results, "box", file, given)
    first = read(results).iloc[0]
    assert (first["nbytes"], first["seconds"]) == (nbytes, pytest.approx(seconds, rel=1e-12))
    assert f"nbytes={nbytes}" in first["case"]


def test_no_host_name_and_no_bus_address_is_kept(results: Path) -> None:
    for file in (TWO, NEWER):
        path, _ = peers.add(results, "box", file)
        text = gzip.decompress(path.read_bytes()).decode()
        assert "secret-host" not in text and "18:00" not in text
        envelope = json.loads(text)
        assert envelope["left_out"] == "host name and PCI address of each GPU"
        assert (envelope["tool"], len(envelope["sha256"])) == ("nvbandwidth", 64)


def test_they_are_never_runs_of_ours(results: Path) -> None:
    archive.write(results, run([record(copy_case())], launches=1))
    alone = read(results)
    peers.add(results, "shelf", TWO)
    tree = read_tree(results)
    assert len(tree.runs) == 1
    mine = tree.frame[~tree.frame["source"].isin(peers.SOURCES)]
    assert mine["run_id"].to_list() == alone["run_id"].to_list()
    assert len(tree.frame) == len(alone) + 17
    of_run = tree.frame[tree.frame["run_id"] == tree.runs[0].run_id]
    assert answers(rows_of(of_run)) == answers(rows_of(alone))


def test_the_same_file_twice_changes_nothing(results: Path) -> None:
    first, added = peers.add(results, "box", TWO)
    assert added
    assert peers.add(results, "box", TWO) == (first, False)
    _, added = peers.add(results, "box", NEWER)
    assert added
    _, added = peers.add(results, "other", TWO)
    assert added
    assert len(list(results.glob("*/peers/*"))) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no JSON"),
        ("nvbandwidth Version: v0.8\nRunning ...", "is no JSON"),
        (TWO.read_text()[:900], "is cut short or damaged"),
        ("[1, 2]", "is JSON, but not nvbandwidth's"),
        ('{"nvbandwidth": 3}', "is JSON, but not nvbandwidth's"),
        ('{"results": {}}', "is JSON, but not nvbandwidth's"),
        ('{"error": "other tool"}', "is JSON, but not nvbandwidth's"),
        ('{"nvbandwidth": {"error": "no GPU:  found"}}', "holds no result (no GPU:  found)"),
        ('{"nvbandwidth": {"testcases": []}}', "holds no result (it ran no test)"),
        ("[" * 100_000, "is no JSON"),
        (b"\xff\xfe{", "is no JSON"),
    ],
)
def test_what_is_not_nvbandwidths_is_refused_in_one_line(
    results: Path, text: str | bytes, said: str
) -> None:
    file = results / "given.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as caught:
        peers.add(results, "box", file)
    message = str(caught.value)
    assert message.startswith(str(file)) and said in message and "\n" not in message
    assert not (results / "box").exists()


ODD: list[Any] = [None, 3, "x", [], [3], [[]], [[None]], [["-1"]], [[True]], [[[1]]], {"a": 1}]


@pytest.mark.parametrize("matrix", ODD)
def test_an_odd_matrix_is_no_number(matrix: Any) -> None:
    test = {"name": "x", "status": "Passed", "bandwidth_matrix": matrix}
    assert all(one.status != "ok" for one in nvbandwidth.points({"testcases": [test, 3, {}]}))


def test_a_damaged_copy_is_a_warning_that_names_it(results: Path) -> None:
    path, _ = peers.add(results, "box", TWO)
    path.write_bytes(path.read_bytes()[:50])
    other = path.with_name(f"x-{path.name}")
    other.write_bytes(gzip.compress(b'{"format": 7}'))
    tree = read_tree(results)
    assert len(tree.frame) == 0
    assert sorted(warning.partition(" ")[0] for warning in tree.warnings) == sorted(
        [str(path), str(other)]
    )
    _, added = peers.add(results, "box", TWO)
    assert added


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": 1},
        {"buffer_bytes": "64 MiB"},
        {"buffer_bytes": 0},
        {"content": {}},
        {"tool": None},
    ],
)
def test_an_envelope_of_other_types_is_damage(results: Path, changes: dict[str, Any]) -> None:
    path, _ = peers.add(results, "box", TWO)
    envelope = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps({**envelope, **changes}).encode()))
    said: list[str] = []
    assert peers.rows_of(path, said.append) == []
    assert len(said) == 1 and f"{path} is damaged" in said[0]


def test_the_command(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--machine", "box", "--results", str(results)]
    assert main(["import", str(TWO), *where]) == EXIT_OK
    out, err = capsys.readouterr()
    assert out.startswith(f"kept {TWO} as {results / 'box' / 'peers'}")
    assert "--buffer-size 512MiB" in err
    assert main(["import", str(TWO), *where, "--buffer-size", "512MiB"]) == EXIT_OK
    out, err = capsys.readouterr()
    assert out.endswith("nothing changed\n") and err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing.json", "--machine", "box"], EXIT_USAGE, "cannot read missing.json: No such"),
        (["docs", "--machine", "box"], EXIT_NOTHING_MEASURED, "docs holds no results of any"),
        ([".", "--buffer-size", "1MiB"], EXIT_USAGE, "--buffer-size is for a file"),
        ([str(TWO), "--machine", "a/b"], EXIT_USAGE, "--machine 'a/b' cannot name a machine"),
        ([str(TWO), "--buffer-size", "big"], EXIT_USAGE, "'--buffer-size': 'big' is no size"),
        ([str(TWO), "--buffer-size", "-1"], EXIT_USAGE, "'--buffer-size': '-1' is no size"),
        ([__file__, "--machine", "box"], EXIT_FAILED, "is no JSON"),
    ],
)
def test_wrong_use_is_one_line(
    results: Path,
    arguments: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", *arguments, "--results", str(results)]) == code
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_the_axes_that_make_it_the_same_are_choices_of_the_workload() -> None:
    tests = [(work, *pair) for work in load().values() for pair in work.nvbandwidth.items()]
    assert len({test for _, test, _ in tests}) == len(tests) == 4
    for work, _, axes in tests:
        for axis, value in axes.items():
            assert value in work.axes[axis], (work.name, axis)


def test_list_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "transfer"]) == EXIT_OK
    out = capsys.readouterr().out
    assert "    nvbandwidth: device_to_host_memcpy_ce [memory=pinned,blocking=False]\n" in out
    assert main(["list", "allocation", "--format", "json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)[0]["nvbandwidth"] is None
