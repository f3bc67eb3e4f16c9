"""Made-up histories: the tree is whole, holds what its story says, and that can be found in it."""

import hashlib
import json
import math
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest

from hostbench.judge.changepoint.detector import log_seconds
from hostbench.judge.changepoint.machine import judge_machine
from tests.fakes import histories
from tests.stored import Tree, read_tree

QUIET = {
    "commits": 80,
    "series": 12,
    "seed": 3,
    "machine": [
        {"name": "simulated-one", "sigma": 0.002, "facts": {"host": {"governor": "performance"}}},
        {"name": "simulated-two", "sigma": 0.002, "link": {"generation": 4, "width": 16}},
    ],
    "event": [
        {"kind": "code", "at": 25, "effect": 0.10, "series": "transfer.device_to_host"},
        {"kind": "code", "at": 15, "until": 45, "effect": 0.20, "series": "overlap.pipeline"},
        {
            "kind": "environment",
            "machine": "simulated-one",
            "at": 60,
            "rerun": True,
            "fact": "nvml.driver",
            "value": "590.7",
            "effect": 0.05,
        },
        {
            "kind": "environment",
            "machine": "simulated-two",
            "at": 65,
            "fact": "software.torch",
            "value": "2.13",
        },
    ],
}
GAPS = {
    "commits": 12,
    "series": 12,
    "machine": [{"name": "simulated-1"}],
    "event": [
        {"kind": "failed", "at": 2, "series": "transfer.strided"},
        {"kind": "skipped", "at": 3, "until": 5, "series": "transfer.strided"},
        {"kind": "missing", "machine": "simulated-1", "at": 6, "until": 8},
        {"kind": "partial", "machine": "simulated-1", "at": 9, "share": 0.1},
        {"kind": "version", "at": 10, "effect": -0.5, "series": "transfer.strided"},
    ],
}


def written(folder: Path, story: dict[str, Any]) -> tuple[dict[str, Any], Tree]:
    """The truth of a story and the tree that was written of it."""
    results = histories.write(folder, story)
    return json.loads((folder / "truth.json").read_text()), read_tree(results)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Tree]:
    return written(tmp_path_factory.mktemp("quiet"), QUIET)


@pytest.mark.parametrize("machine", ["simulated-one", "simulated-two"])
def test_a_detector_finds_the_truth_and_nothing_else(
    quiet: tuple[dict[str, Any], Tree], machine: str
) -> None:
    truth, stored = quiet
    expected = {}
    for event in truth["events"]:
        if event["machine"] == machine and event["effect"]:
            whose = event["series"] if event["kind"] != "environment" else ["machine"]
            for case in whose:
                expected[case, event["index"]] = math.log1p(event["effect"])
                if event["until_index"] is not None:
                    expected[case, event["until_index"]] = -math.log1p(event["effect"])
    rows = stored.frame[stored.frame["machine"] == machine]
    table = rows.pivot(index="case", columns="started_at", values="seconds")
    judged = judge_machine([log_seconds(row) for row in table.to_numpy()])
    assert judged.common is not None
    changes = [(c, one) for c, j in zip(table.index, judged.own, strict=True) for one in j.changes]
    changes += [("machine", change) for change in judged.common.changes]
    assert {change.state for _, change in changes} == {"confirmed"}
    steps = {(case, change.index): math.log1p(change.effect) for case, change in changes}
    assert steps == pytest.approx(expected, abs=0.004)


def test_every_machine_says_that_it_is_simulated(quiet: tuple[dict[str, Any], Tree]) -> None:
    rows = quiet[1].frame
    assert {str(name)[:10] for name in rows["machine"]} == {"simulated-"}
    assert {str(name)[:10] for name in rows["hardware"]} == {"Simulated "}
    assert set(rows["device"]) == {"simulated"}
    assert rows["scratch"].isna().all() and not quiet[1].warnings


def test_gaps_are_what_they_are(tmp_path: Path) -> None:
    truth, stored = written(tmp_path, GAPS)
    rows = stored.frame
    commits = {commit: number for number, commit in enumerate(truth["commits"])}
    rows["number"] = rows["commit"].map(commits)
    strided = rows[rows["workload"] == "transfer.strided"].set_index("number")
    assert strided.loc[2, "status"] == "failed" and "simulated" in str(strided.loc[2, "reason"])
    assert set(strided.loc[3:4, "status"]) == {"skipped"}
    assert not {6, 7} & set(rows["number"]) and {5, 8} <= set(rows["number"])
    assert set(rows[rows["number"] == 9]["status"]) == {"ok", "not measured"}
    assert set(rows[rows["number"] == 8]["status"]) == {"ok"}
    assert (strided.loc[8, "version"], strided.loc[10, "version"]) == ("1", "2")
    assert strided["seconds"].to_dict()[10] < 0.6 * strided["seconds"].to_dict()[8]
    assert {e["kind"]: (e["index"], e["until_index"]) for e in truth["events"]} == {
        "failed": (2, 3),
        "skipped": (3, 5),
        "missing": (6, 6),
        "partial": (7, 8),
        "version": (8, None),
    }


def test_a_seed_gives_the_same_bytes_in_a_repository(tmp_path: Path) -> None:
    digests = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        told = histories.made_up(machines=2, commits=40, series=3, seed=seed)
        assert {event["kind"] for event in told["event"]} == set(get_args(histories.Kind))
        histories.write(tmp_path / name, told, git=name == "a")
        every = sorted((tmp_path / name / "results").rglob("*.gz"))
        digests.append(hashlib.sha256(b"".join(path.read_bytes() for path in every)).hexdigest())
    assert digests[0] == digests[1] != digests[2]
    truth = json.loads((tmp_path / "a" / "truth.json").read_text())
    command = ["git", "-C", str(tmp_path / "a"), "rev-list", "--reverse", "main"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == truth["commits"]
    with pytest.raises(FileExistsError, match="not an empty folder"):
        histories.write(tmp_path / "a", told)
    with pytest.raises(ValueError, match="selects none"):
        event = {"kind": "code", "at": 1, "series": "transfer[memory=none]"}
        histories.write(tmp_path / "d", {**QUIET, "event": [event]})
