"""Triage entries: read, matched, merged by git, written without losing what others wrote."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostbench.core.case import as_typed
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from hostbench.store import archive, triage
from hostbench.store.triage import Entry
from tests.commands import Done, hostbench
from tests.fakes.builders import COMMIT, copy_case, record, run

SERIES = f"{copy_case()}@shelf"
RUN = "20261121T120000Z-nogit-0001"
ENTRY = Entry(series=SERIES, since=COMMIT, state="accepted", note="a: b")


def test_an_entry_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    triage.put(tmp_path, replace(ENTRY, state="noise", note=None))
    path = triage.put(tmp_path, ENTRY)
    assert triage.read(tmp_path) == {path: ENTRY}


def test_branches_merge_and_a_disagreement_is_a_conflict() -> None:
    """A file an event: git merges those that differ."""
    for same in (replace(ENTRY, state="noise"), replace(ENTRY, note=None)):
        assert same.file_name == ENTRY.file_name
    others: tuple[dict[str, Any], ...] = ({"series": "machine:shelf"}, {"since": RUN})
    names = {replace(ENTRY, **other).file_name for other in others}
    assert len(names - {ENTRY.file_name}) == 2


def test_the_command(tmp_path: Path) -> None:
    def triage_(*words: str) -> Done:
        return hostbench("triage", *words, "--results", tmp_path, code=None)

    assert "no triage entries" in triage_().out
    archive.write(tmp_path, run([record(copy_case(), launch) for launch in range(8)], launches=8))
    words = ("expected", "--note", "ana\n")
    code, out, _ = triage_(SERIES, RUN, *words)
    assert code == EXIT_OK and "it applies to 0 events" in out
    out = triage_().out
    assert "expected" in out and as_typed(SERIES) in out and "ana" in out
    stored = {"series": SERIES, "since": RUN, "state": "expected", "note": "ana "}
    (path,) = (tmp_path / "triage").iterdir()
    stored["file"] = path.name
    assert json.loads(triage_("--format", "json").out) == [stored]
    (tmp_path / "triage" / "half.txt").write_text('{"state": "noise"}')
    code, _, err = triage_("--format", "json")
    assert code == EXIT_FAILED and "half.txt: it does not count (Object missing" in err
    for wrong in ((SERIES, RUN, "ok"), (SERIES, "no-such-branch", "noise")):
        assert triage_(*wrong)[0] == EXIT_USAGE
    for unknown in (SERIES.replace("shelf", "shell"), SERIES.partition("@")[0], "machine:nosuch"):
        code, _, err = triage_(unknown, RUN, "noise")
        assert code == EXIT_USAGE and "is not a series that is stored" in err
