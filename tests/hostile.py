"""A results folder, projects and traces as nobody should meet them: 80 files that are damaged,
huge, odd or malicious beside healthy ones, and every command and page that reads them.

`python -m tests.hostile FOLDER` builds the tree there, runs all in this one process and prints a
line a command: exit code, seconds, and the most memory so far. `FOLDER FILE` writes all to a file.
"""

import contextlib
import gzip
import io
import json
import math
import os
import re
import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from hostbench.cli import main
from hostbench.device import simulated_file
from hostbench.facts.software import TorchState
from hostbench.store import archive
from tests import own_project
from tests.cli.test_nightly import CONFIG, WORKLOAD
from tests.dashboard_page import APP, PAGES, opened
from tests.fakes.builders import COMMIT, copy_case, failed, record, run, skipped
from tests.made_trace import MadeTrace
from tests.scratch import Scratch

Content = bytes | dict[str, Any] | list[Any] | Callable[[Path], object]
"""Of a file: its bytes, what it holds as JSON (packed where its name says so), or what makes it."""

SECRET = "a secret outside of the folder"
EVIL = "<script>alert(1)</script>\x1b[2J\u202e [c](javascript:alert(1)) `x` |\n# h ![i](http://x/y)"
"""Markup of two kinds, an escape of a terminal, a turn of direction, a second line."""
BRACES = "cur{0}ly'"
"""A machine's name, which no text takes for a field or ends with."""
NO_TEXT = os.fsdecode(b"no text \xff")
OTHER_COMMIT, LATER = "9f" * 20, "20261122T120000Z-9f9f9f9f-0002"
RUNS = "shelf/runs/20261101T{:06}Z-aaaaaaaa-bbbb.json.gz"
COPIES = [copy_case(nbytes=nbytes) for nbytes in (1 << 12, 1 << 20, 1 << 26)]
RECORDS = [record(case, launch, 1e-4) for case in COPIES for launch in range(8)]
RUN = run([*RECORDS, skipped(copy_case(memory="pinned"), EVIL)], launches=8)


def packed(content: Any) -> bytes:
    return gzip.compress(content if isinstance(content, bytes) else json.dumps(content).encode(), 1)


def an_archive(**changes: Any) -> dict[str, Any]:
    """A whole one with other values: `header_machine=5` is that of its header."""
    content = {"hostbench": json.loads(json.dumps(to_builtins(RUN)))}
    for key, value in changes.items():
        part, _, name = key.partition("_")
        ours = content["hostbench"]
        (ours[part] if part == "header" else ours["records"][0])[name] = value
    return content


def of_asv(**changes: Any) -> dict[str, Any]:
    """A file as asv writes it, of one benchmark with two parameters."""
    columns = ["result", "params", "version", "started_at", "duration"]
    row = [[0.5, 0.7], [["'a'", "'b'"]], "1", 1_700_000_000_000, None]
    whole = {"commit_hash": COMMIT, "env_name": "virtualenv-py3.11", "date": 1_700_000_000_000}
    return {**whole, "result_columns": columns, "results": {"x.time_x": row}, **changes}


def results_of(value: Any, params: Any = ()) -> dict[str, Any]:
    return of_asv(results={"x.time_x": [value, list(params), "1", 1_700_000_000_000, None]})


def an_entry(**changes: Any) -> dict[str, Any]:
    whole = {"series": f"{COPIES[0]}@shelf", "since": COMMIT, "state": "noise", "note": "mine"}
    return {**whole, **changes}


def link(target: str) -> Callable[[Path], object]:
    """To a path that begins at the folder of the file, or an absolute one."""
    return lambda path: path.symlink_to(path.parent / target)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 5 << 30)


def bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(b"\0" * (65 << 20), 1))


DEEP = b"[" * 100_000
MANY = b"[" + b"0," * 4_100_000 + b"0]"
CASES = ["a.b"] * 200_001
NAMES = {f"x.time_{number}": [[0.5], [], "1", 1_700_000_000_000, None] for number in range(20_000)}

STORED: dict[str, tuple[Content, str]] = {
    RUNS.format(1): (b"no gzip", "is damaged"),
    RUNS.format(2): (b"", "is damaged"),
    RUNS.format(3): (packed(an_archive())[:-9], "is damaged"),
    RUNS.format(4): (packed(b"no json"), "is damaged"),
    RUNS.format(5): (packed(b"null"), "is damaged"),
    RUNS.format(6): (packed(DEEP), "is damaged"),
    RUNS.format(7): (packed(b"\xff\xfe{}"), "is damaged"),
    RUNS.format(8): (bomb, "larger than 64MiB"),
    RUNS.format(9): (packed(MANY), "more than 4,000,000 values"),
    RUNS.format(10): (link("/dev/zero"), "a link out of"),
    RUNS.format(11): (os.mkfifo, "not a regular file"),
    RUNS.format(12): (lambda path: path.symlink_to(path), "a link to itself"),
    RUNS.format(13): (link("../../../secret.json"), "a link out of"),
    RUNS.format(14): (Path.mkdir, "Is a directory"),
    RUNS.format(15): ({"hostbench": {"format": 99, "run": {}}}, "update it if"),
    RUNS.format(16): ({"hostbench": {"format": "1"}}, "is damaged"),
    RUNS.format(17): ({"hostbench": {"format": 1, "header": {}, "records": []}}, "is damaged"),
    RUNS.format(18): (an_archive(header_machine="../../../etc"), "is damaged"),
    RUNS.format(27): (an_archive(header_run_id="../up"), "is damaged"),
    RUNS.format(19): (an_archive(header_started_at="tomorrow"), "is damaged"),
    RUNS.format(20): (an_archive(header_commit=EVIL), "is damaged"),
    RUNS.format(21): (an_archive(header_launches=10**400), "is damaged"),
    RUNS.format(22): (an_archive(record_seconds=math.nan), "is damaged"),
    RUNS.format(23): (an_archive(record_seconds=-1), "is damaged"),
    RUNS.format(24): (an_archive(record_reason="half \ud800"), "is damaged"),
    RUNS.format(25): (an_archive(record_case="\x1b[2J"), "is damaged"),
    RUNS.format(26): (an_archive(header_planned=CASES), "200,000"),
    "shelf/runs/20261101T000099Z-<b>x\x1b[2J-bbbb.json.gz": (b"x", "is damaged"),
    "<i>\x1b[2J/runs/x.json.gz": (an_archive(), ""),
    f"shelf/runs/{NO_TEXT}.json.gz": (b"x", "is not UTF-8"),
    f"{NO_TEXT}/runs/x.json.gz": (an_archive(), ""),  # its folder is named
    f"{BRACES}/runs/{RUN.header.run_id}.json.gz": (an_archive(header_machine=BRACES), ""),
    ".journals/a.journal.jsonl": (b"no json\n", "not a readable journal"),
    ".journals/b.journal.jsonl": (DEEP, "not a readable journal"),
    ".journals/c.journal.jsonl": (b"\n" * 4_100_000, "more than 4,000,000 values"),
    ".journals/d.journal.jsonl": (link("../../secret.json"), "a link out of"),
    ".journals/e.journal.jsonl": (b'{"kind": "run", "format": 99}\n', "reads 1"),
    ".journals/f.journal.jsonl": (os.mkfifo, "not a regular file"),
    "shelf/aaaaaa01-x.json": (b"{", "is not an asv result file"),
    "shelf/aaaaaa02-x.json": (b"[1, 2]", "is not an asv result file"),
    "shelf/aaaaaa03-x.json": (DEEP, "is not an asv result file"),
    "shelf/aaaaaa04-x.json": (MANY, "more than 4,000,000 values"),
    "shelf/aaaaaa05-x.json": (sparse, "larger than 64MiB"),
    "shelf/aaaaaa06-x.json": (link("../../secret.json"), "a link out of"),
    "shelf/aaaaaa07-x.json": (of_asv(results=5), "is not an asv result file"),
    "shelf/aaaaaa08-x.json": (of_asv(date="soon"), ""),
    "shelf/aaaaaa09-x.json": (of_asv(date=10**30), ""),
    "shelf/aaaaaa10-x.json": (of_asv(commit_hash=EVIL), ""),
    "shelf/aaaaaa11-x.json": (of_asv(result_columns=["a"] * 1000), ""),
    "shelf/aaaaaa12-x.json": (results_of([[1e-3]], [["1"]]), ""),
    "shelf/aaaaaa13-x.json": (results_of(None, [[str(n) for n in range(1000)]] * 3), "200,000"),
    "shelf/aaaaaa14-x.json": (results_of([math.nan, math.inf], [["'a'", "'b'"]]), ""),
    "shelf/aaaaaa15-x.json": (results_of([0.5], [["[" * 5000]]), ""),
    "shelf/aaaaaa16-x.json": (results_of([0.5], [[f"__import__('os').system({EVIL!r})"]]), ""),
    "shelf/aaaaaa17-x.json": (results_of([0.5], [["'\ud800'"]]), "is not an asv result file"),
    "shelf/aaaaaa18-x.json": (of_asv(results=NAMES), ""),
    "shelf/aaaaaa19-x.json": (of_asv(results={EVIL: NAMES["x.time_0"]}), ""),
    "shelf/aaaaaa20-x.json": (results_of([10**400]), "OverflowError"),
    "bent/machine.json": (b"{", "is damaged"),
    "bent/aaaaaa01-x.json": (of_asv(), ""),
    "shelf/machine.json": ({"machine": EVIL, "cpu": EVIL, "ram": math.nan}, ""),
    "benchmarks.json": ({"x.time_x": {"param_names": 5, "unit": EVIL}, "version": "x"}, ""),
    "triage/a.txt": (b"{", "does not count"),
    "triage/b.txt": (an_entry(note="\x1b[31mred"), "does not count"),
    "triage/c.txt": (an_entry(series="\ud800"), "does not count"),
    "triage/d.txt": (MANY, "does not count"),
    "triage/e.txt": (os.mkfifo, "does not count"),
    "triage/f.txt": (an_entry(since="../.."), "does not count"),
}  # fmt: skip
"""Below a results folder, and what the one warning of it says; an empty text: there is none."""

NIGHTS: dict[str, tuple[Content, str]] = {
    "shelf/nights/a.json.gz": (b"x", "is damaged"),
    "shelf/nights/b.json.gz": (bomb, "larger than 64MiB"),
    "shelf/nights/c.json.gz": ({"run_id": 5}, "is damaged"),
    "shelf/nights/d.json.gz": (link("../../../secret.json"), "a link out of"),
}
"""Also there; read where a level begins."""

TRACES: dict[str, tuple[Content, str]] = {
    "a.json": (b"", "not a trace"),
    "b.json": (b'{"traceEvents": [{"ph": "X", "cat": "kernel"', "not a trace"),
    "c.json": (DEEP, "not a trace"),
    "d.json.gz": (packed({"traceEvents": [{"ph": "X"}]})[:-12], "not a trace"),
    "e.json": (os.mkfifo, "not a regular file"),
    "f.json": ({"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1e300, "dur": -1}]}, "left out"),
    "g.json": ({"traceEvents": 5}, "not a trace"),
    "h.json": (link("/dev/zero"), "not a regular file"),
    "j.json": (b'{"user": bad, "traceEvents": []}', ""),
    "i.json": (["\x1b[2J", {"ph": "X", "cat": EVIL}], "left out"),
}

CONFIGS: dict[str, bytes | Callable[[Path], object]] = {
    "no json": b"{",
    "no object": b"[1]",
    "deep": DEEP,
    "no text": b"\xff\xfe",
    "a fifo": os.mkfifo,
    "endless": link("/dev/zero"),
    "results are a number": b'{"results_dir": 5}',
    "results lie outside": b'{"results_dir": "../../../../etc"}',
    "results are markup": json.dumps({"results_dir": EVIL, "repo": EVIL}).encode(),
    "deep TOML": b"a = " + b"[" * 5000,
}
"""As asv.conf.json and as pyproject.toml of a project."""


def put(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if callable(content):
        content(path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif path.name.endswith(".gz"):
        path.write_bytes(packed(content))
    else:
        path.write_text(json.dumps(content))


def build(root: Path) -> None:
    """`results`, `traces`, a folder for each project, and what nobody may read or touch."""
    results = root / "results"
    put(root / "secret.json", {"hostbench": SECRET})
    archive.write(results, RUN)
    failures = [failed(case, EVIL, launch) for case in COPIES[2:] for launch in range(8)]
    slower = [record(case, launch, 2e-4) for case in COPIES[:2] for launch in range(8)]
    about = {"run_id": LATER, "commit": OTHER_COMMIT, "started_at": "2026-11-22T12:00:00.000Z"}
    archive.write(results, run([*slower, *failures], launches=8, **about))
    put(results / "triage/good.txt", an_entry())
    put(results / "shelf" / f"{COMMIT[:8]}-virtualenv-py3.11.json", of_asv())
    for name, (content, _) in (STORED | NIGHTS).items():
        put(results / name, content)
    trace = MadeTrace()
    trace.kernel((0, 5), (10, 110), name=EVIL)
    trace.op(EVIL, (18, 120))
    trace.sync((20, 115))
    trace.note(f"hostbench line 3  step {EVIL}.py", (121, 121))
    trace.kernel((170, 175), (180, 300))
    put(root / "traces/good.json", {"traceEvents": trace.events})
    for name, (content, _) in TRACES.items():
        put(root / "traces" / name, content)
    for number, content in enumerate(CONFIGS.values()):
        put(root / f"asv.conf.json-{number}" / "asv.conf.json", content)
        put(root / f"pyproject.toml-{number}" / "pyproject.toml", content)
        put(root / f"pyproject.toml-{number}" / "asv.conf.json", {"benchmark_dir": "."})


ON_SHELF = "--device simulated --machine simulated-shelf --launches 7"
BISECT = "bisect steps.copies[device=cuda,way=to] --good HEAD~1 --bad HEAD"
MEASURING = [f"{command} {ON_SHELF}" for command in ("nightly", "run steps", "ab HEAD~1", BISECT)]


def commands(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each with the folder it is run in."""
    of_results = ["--results", str(root / "results")]
    compare = f"compare {COMMIT[:8]} {OTHER_COMMIT[:8]}"
    reading = {
        "report --machine shelf": ("text", "md", "json", "csv", "html"),
        "changes --all": ("text", "md", "json", "csv"),
        compare: ("text",),  # which reads it all again
    }
    shown = [f"{command} --format {form}" for command in reading for form in reading[command]]
    for command in (*shown, "triage", f"publish file://{root}/published"):
        yield root, [*command.split(), *of_results]
    yield root, ["idle", "--trace", str(root / "traces"), "--format", "md"]
    yield root, ["doctor"]
    for number in range(len(CONFIGS)):
        for command in ("report", "list", "doctor"):
            yield root / f"asv.conf.json-{number}", [command]
        yield root / f"pyproject.toml-{number}", ["list"]


def everything(root: Path) -> Iterator[dict[str, Any]]:
    """Runs each, and then each page; nothing may take more memory than there is."""
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    with pytest.MonkeyPatch.context() as patch:
        torch = TorchState(installed=True, importable=True, version="2.13.0")
        patch.setattr("hostbench.cli.doctor.probe_torch", lambda: torch)
        for folder, words in commands(root):
            os.chdir(folder)
            about = f"{folder.name}: {' '.join(words)}" if folder != root else " ".join(words)
            yield {"what": about, **_measured(partial(main, words))}
        os.chdir(root)
        patch.syspath_prepend(str(APP))
        patch.setattr(sys, "argv", ["app.py"])
        for page in PAGES:
            yield {"what": f"page {page}", **_measured(partial(_draw, patch, page, root))}
    project = _project(root)
    for command in MEASURING:
        yield {"what": command, **_measured(partial(_measure, project, command, root))}


def _project(root: Path) -> Scratch:
    """Beside the results: two commits, the second of which is slower."""
    project = own_project.empty(root)
    own_project.write(project.root, f"# benchmarks/steps.py\n{WORKLOAD}")
    (project.root / "asv.conf.json").write_text(json.dumps(CONFIG))
    (project.home / "story.toml").write_text("seed = 1\n")
    project.environ[simulated_file.VARIABLE] = str(project.home / "story.toml")
    project.git("init", "-q")
    for times, message in enumerate(("begin", "slower"), start=1):
        (project.root / "mine.py").write_text(f"TIMES = {times}\n")
        project.commit(message)
    return project


def _measure(project: Scratch, command: str, root: Path) -> int:
    done = project.hostbench(*command.split(), "--results", str(root / "results"))
    print(done.stdout, end="")
    return done.returncode


def _draw(patch: pytest.MonkeyPatch, page: str, root: Path) -> int:
    """Prints its text; the exit code is the number of errors."""
    app = opened(patch, page, root / "results")
    kinds = (app.markdown, app.caption, app.info, app.error, app.warning, app.subheader)
    print(*(element.value for kind in kinds for element in kind), sep="\n")
    print(*(error.stack_trace for error in app.exception), file=sys.stderr)
    return len(app.exception)


def _measured(work: Callable[[], int]) -> dict[str, Any]:
    started, out, err, code = os.times(), io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
    return {
        "code": code,
        "out": out.getvalue(),
        "err": err.getvalue(),
        "cpu_s": round(sum(os.times()[:4]) - sum(started[:4]), 1),
        "peak_mib": max(_peak_mib(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10),
    }


def _peak_mib() -> int:
    """Of this program: ru_maxrss begins with that of the process that started it."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) >> 10


if __name__ == "__main__":
    tree, written = Path(sys.argv[1]).resolve(), list[dict[str, Any]]()
    build(tree)
    for row in everything(tree):
        print(f"exit {row['code']}, {row['cpu_s']} s, {row['peak_mib']} MiB: {row['what']}")
        written.append(row)
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(written))
