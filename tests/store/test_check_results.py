"""check-results names every kind of damage with its remedy, and changes nothing."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hostbench.cli import main
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter
from hostbench.store import archive, check
from tests.fakes.builders import copy_case, header, later, record, run, write_journal
from tests.store.test_frame import H2D, STARTED_MS, asv_file

RUN = run([record(copy_case(), 0), record(copy_case(), 1)], asv_rows=[[H2D, STARTED_MS]])
NAME = f"{RUN.header.run_id}.json.gz"
FILE = "1a2b3c4d-hostbench-py3.11.json"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """As hostbench and asv leave it."""
    asv_file(tmp_path)
    archive.write(tmp_path, RUN)
    (tmp_path / "README.md").write_text("ours")
    (tmp_path / ".index").mkdir()
    (tmp_path / ".index" / "contents").write_text("broken: it is made anew at will")
    return tmp_path


def found(results: Path) -> list[str]:
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    findings = check.check(results).findings
    assert {p: p.read_bytes() for p in results.rglob("*") if p.is_file()} == before
    for finding in findings:
        assert finding.remedy and finding.path.is_relative_to(results)
    return [f"{one.path.relative_to(results)}: {one.what}; {one.remedy}" for one in findings]


def test_a_clean_folder(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(results) == []
    assert main(["check-results", "--results", str(results)]) == 0
    assert capsys.readouterr().out == "2 files, 1 run: all whole\n"


def half_asv(results: Path) -> None:
    path = results / "shelf" / FILE
    path.write_bytes(path.read_bytes()[:100])


def no_results(results: Path) -> None:
    (results / "shelf" / "12345678-other.json").write_text('{"commit_hash": "12345678"}')


def half_archive(results: Path) -> None:
    path = results / "shelf" / "runs" / NAME
    path.write_bytes(path.read_bytes()[:100])


def wrong_shape(results: Path) -> None:
    path = results / "shelf" / "runs" / NAME
    data = json.loads(gzip.decompress(path.read_bytes()))
    data["hostbench"]["records"][0]["seconds"] = "fast"
    path.write_bytes(gzip.compress(json.dumps(data).encode()))


def no_date(results: Path) -> None:
    path = results / "shelf" / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "date": 9_999_999_999_999}))


def far_away(results: Path) -> None:
    path = results / "shelf" / "runs" / NAME
    data = json.loads(gzip.decompress(path.read_bytes()))
    data["hostbench"]["header"]["started_at"] = "9999-01-01T00:00:00Z"
    path.write_bytes(archive.packed(data))


def newer(results: Path) -> None:
    (results / "shelf" / "runs" / NAME).write_bytes(archive.packed({"hostbench": {"format": 2}}))


def newer_first_part(results: Path) -> None:
    archive.write(results, later(RUN, 10, 2, [record(copy_case(), 1)]))
    newer(results)


def renamed(results: Path) -> None:
    path = results / "shelf" / "runs" / NAME
    path.rename(path.with_name("other.json.gz"))


def moved(results: Path) -> None:
    (results / "table" / "runs").mkdir(parents=True)
    (results / "shelf" / "runs" / NAME).rename(results / "table" / "runs" / NAME)


def doubled(results: Path) -> None:
    path = results / "shelf" / "runs" / NAME
    path.with_name("a.json.gz").write_bytes(path.read_bytes())


def doubled_asv(results: Path) -> None:
    path = results / "shelf" / FILE
    path.with_name("1a2b3c4d-old.json").write_bytes(path.read_bytes())


def lost_rows(results: Path) -> None:
    (results / "shelf" / FILE).unlink()


def lost_first_part(results: Path) -> None:
    archive.write(results, later(RUN, 10, 2, [record(copy_case(), 1)]))
    (results / "shelf" / "runs" / NAME).unlink()


def orphan(results: Path) -> None:
    write_journal(results, run([record(copy_case())], run_id="orphan"), finish=False)


def orphan_of_ab(results: Path) -> None:
    one = run([record(copy_case())], run_id="turns", by="hostbench ab", interleaved_with="other")
    write_journal(results, one, finish=False)


def orphan_of_asv(results: Path) -> None:
    one = run([record(copy_case())], run_id="asvs", by="asv", machine=None)
    write_journal(results, one, finish=False)


def whole_orphan(results: Path) -> None:
    write_journal(results, run([record(copy_case())], run_id="whole"))


def empty_orphan(results: Path) -> None:
    write_journal(results, run([], run_id="empty"), finish=False)


def archived_journal(results: Path) -> None:
    write_journal(results, RUN)


def headless_journal(results: Path) -> None:
    write_journal(results, run([record(copy_case())], run_id="x")).write_text("{")


def newer_peer(results: Path) -> None:
    peer(results)
    path = results / "shelf" / "peers" / "20261121T120000Z-nvbandwidth.json.gz"
    path.write_bytes(archive.packed({"format": 2}))


def conflict(results: Path) -> None:
    path = results / "benchmarks.json"
    text = path.read_text()
    path.write_text(f"<<<<<<< HEAD\n{text}\n=======\n{text}\n>>>>>>> other\n")


def no_benchmarks(results: Path) -> None:
    (results / "benchmarks.json").unlink()


def other_machine(results: Path) -> None:
    (results / "shelf" / "machine.json").write_text('{"machine": "table"}')


def no_machine(results: Path) -> None:
    (results / "shelf" / "machine.json").unlink()


def other_name(results: Path) -> None:
    path = results / "shelf" / FILE
    path.rename(path.with_name("99999999-hostbench-py3.11.json"))


def leftover(results: Path) -> None:
    (results / "shelf" / "runs" / ".a.json.gz.12.tmp").write_text("half")


def unknown(results: Path) -> None:
    (results / "shelf" / "notes.docx").write_text("?")


def peer(results: Path) -> None:
    (results / "shelf" / "peers").mkdir()
    (results / "shelf" / "peers" / "20261121T120000Z-nvbandwidth.json.gz").write_bytes(b"?")


def half_description(results: Path) -> None:
    (results / "shelf" / "benchmarks.json").write_text("{")


def no_figures(results: Path) -> None:
    (results / "published.toml").write_text("figure = 3")


def half_figure(results: Path) -> None:
    (results / "published.toml").write_text("[[figure]]\nhardware = 'X1'\n")


DAMAGES: list[tuple[Callable[[Path], None], str, str]] = [
    (half_asv, f"shelf/{FILE}: cannot be read", "restore it from git"),
    (no_results, "shelf/12345678-other.json: is no asv result file", "restore it from git"),
    (half_archive, f"shelf/runs/{NAME}: is damaged", "restore it from git"),
    (wrong_shape, f"shelf/runs/{NAME}: is damaged (Expected", "restore it from git"),
    (no_date, f"shelf/{FILE}: has date 9999999999999, no time in", "until it is corrected"),
    (far_away, f"shelf/runs/{NAME}: is damaged ('9999-01-01T00:00:00Z' is not in", "from git"),
    (newer, f"shelf/runs/{NAME}: was written by a newer hostbench (format 2", "; update hostbench"),
    (newer_first_part, f"shelf/runs/{NAME}: was written by a newer", "; update hostbench"),
    (renamed, "shelf/runs/other.json.gz: it holds the run", f"rename it to {NAME}"),
    (moved, f"table/runs/{NAME}: it holds a run of machine shelf", "move it"),
    (doubled, "shelf/runs/a.json.gz: the same run as", "delete one"),
    (doubled_asv, "shelf/1a2b3c4d-old.json: commit 1a2b3c4d and environment", "delete one"),
    (lost_rows, f"shelf/runs/{NAME}: asv's file of commit 1a2b3c4d lacks 1 of", "from git"),
    (lost_first_part, "shelf/runs/20261121T121000Z", "restore it from git"),
    (orphan, ".journals/orphan.journal.jsonl: an orphaned journal: 1 case", "--resume"),
    (
        orphan_of_ab,
        ".journals/turns.journal.jsonl: an orphaned",
        "nothing finishes a run of `hos",
    ),
    (orphan_of_asv, ".journals/asvs.journal.jsonl: an orphaned", "nothing finishes a run of `asv`"),
    (empty_orphan, ".journals/empty.journal.jsonl: an orphaned journal: 0 case", "deletes it"),
    (archived_journal, ".journals/20261121T120000Z", "delete it"),
    (headless_journal, ".journals/x.journal.jsonl: is no readable journal", "move it away"),
    (conflict, "benchmarks.json: a merge left its marks", "git checkout --theirs"),
    (no_benchmarks, "benchmarks.json: missing", "just-discover"),
    (half_description, "shelf/benchmarks.json: cannot be read", "restore it from git"),
    (no_figures, "published.toml: is no list of figures", "has an example"),
    (half_figure, "published.toml: figure 1: ", "has an example"),
    (other_machine, "shelf/machine.json: it names the machine table", "rename"),
    (no_machine, "shelf/machine.json: missing: asv leaves", "restore it"),
    (other_name, "shelf/99999999-hostbench-py3.11.json: it holds commit 1a2b3c4d", "rename it"),
    (leftover, "shelf/runs/.a.json.gz.12.tmp: left over", "delete it"),
    (unknown, "shelf/notes.docx: neither asv nor hostbench", "keep it elsewhere"),
    (peer, "shelf/peers/20261121T120000Z-nvbandwidth.json.gz: is damaged", "restore it"),
    (newer_peer, "shelf/peers/20261121T120000Z-nvbandwidth.json.gz: was written", "; update"),
]


@pytest.mark.parametrize(
    ("damage", "said", "remedy"), DAMAGES, ids=lambda one: getattr(one, "__name__", str(one)[:24])
)
def test_each_damage_is_named(
    results: Path, damage: Callable[[Path], None], said: str, remedy: str
) -> None:
    damage(results)
    lines = found(results)
    assert [line for line in lines if line.startswith(said) and remedy in line], lines
    assert len(lines) <= 2  # and little else
    assert ("--resume" in "".join(lines)) is (damage is orphan)
    assert "newer" not in said or not [line for line in lines if "delete" in line]
    assert main(["check-results", "--results", str(results)]) == 4


def test_what_asv_leaves_is_no_damage(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole_orphan(results)
    write_journal(results, run([record(copy_case())], run_id="more", by="asv", machine=None))
    assert main(["check-results", "--results", str(results)]) == 0
    said = capsys.readouterr().out
    assert "2 runs wait to be archived, which the next `hostbench run`" in said
    assert said.count("\n") == 1


def test_a_run_in_progress_is_no_damage(results: Path) -> None:
    one = header(run_id="alive")
    with JournalWriter(places.journal_path(results, "alive"), one):
        assert found(results) == []


def test_as_json(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown(results)
    assert main(["check-results", "--format", "json", "--results", str(results)]) == 4
    said = json.loads(capsys.readouterr().out)
    assert (said["files"], said["runs"], len(said["findings"])) == (2, 1, 1)
    assert set(said["findings"][0]) == {"path", "what", "remedy"}
    assert main(["check-results", "--results", str(results / "absent")]) == 3
