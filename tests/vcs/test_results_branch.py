"""The results branch: many machines push to it and fetch from it, and nothing is lost."""

import base64
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from hostbench.cli import main
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_USAGE,
    BrokenError,
    DataError,
    UsageError,
)
from hostbench.core.files import MAX_VALUES
from hostbench.store import archive, check, union
from hostbench.vcs import remote_branch, repo, results_branch
from hostbench.vcs.remote_branch import TOKEN, Blob, RemoteBranch
from hostbench.vcs.results_branch import BranchSync, fetch, push
from tests.fakes.builders import copy_case, record, run
from tests.store.test_frame import STARTED_MS, asv_file
from tests.turns import git

NAME = "origin/hostbench-results"
BRANCH = "hostbench-results"


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    return tmp_path / "remote.git"


def clone(remote: Path, name: str = "here") -> Path:
    """A checkout with a commit of its own, an index, and a remote."""
    root, like = remote.parent / name, remote.parent / "here"
    if like.exists():
        shutil.copytree(like, root, ignore=shutil.ignore_patterns("results", "hostbench"))
        return root
    git(remote.parent, "init", "-q", "-b", "main", name)
    git(root, "remote", "add", "origin", str(remote))
    (root / "code.py").write_text("1\n")
    (root / "asv.conf.json").write_text("{}")
    (root / ".gitignore").write_text("results/\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "code")
    return root


def measured(root: Path, machine: str = "shelf", number: int = 1, **entry: str) -> Path:
    """The archive of a run of that machine; machine.json says that it is a GPU of that name."""
    at = f"20261121T12000{number}Z-1a2b3c4d-000{number}"
    path = archive.write(root / "results", run([record(copy_case())], machine=machine, run_id=at))
    about = {"machine": machine, "gpu": "NVIDIA H200", "version": 1, **entry}
    (path.parent.parent / "machine.json").write_text(json.dumps(about))
    return path


def state(root: Path) -> tuple[str, ...]:
    """The checkout, its index, its refs and its configuration."""
    told = (
        ("for-each-ref",),
        ("status", "--porcelain"),
        ("ls-files", "-s"),
        ("symbolic-ref", "HEAD"),
    )
    return (*(git(root, *one) for one in told), (root / ".git" / "config").read_text())


def names(remote: Path, branch: str = BRANCH) -> list[str]:
    return git(remote, "ls-tree", "-r", "--name-only", branch).splitlines()


def commit_files(remote: Path, files: Mapping[str, bytes], mode: str = "100644") -> None:
    """What somebody else commits to the branch, whatever it is called."""
    parts = [b"commit refs/heads/%s\ncommitter a <a@b> 0 +0000\ndata 1\nx\n" % BRANCH.encode()]
    if git(remote, "branch", "--list", BRANCH):
        parts.append(b"from refs/heads/%s^0\n" % BRANCH.encode())
    for name, content in files.items():
        parts.append(b'M %s inline "%s"\ndata %d\n' % (mode.encode(), name.encode(), len(content)))
        parts.append(content + b"\n")
    command = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(command, cwd=remote, input=b"".join(parts), check=True)


def test_from_one_machine_to_another_and_the_checkout_stays(
    remote: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = remote.parent / "hooks" / "pre-push"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    settings = remote.parent / "gitconfig"
    settings.write_text(f"[core]\nhooksPath = {hook.parent}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    first, second = clone(remote), clone(remote, "second")
    (first / "code.py").write_text("2\n")
    git(first, "add", "code.py")
    (first / "code.py").write_text("3\n")
    path = measured(first)
    asv_file(first / "results")
    (first / "results" / "shelf" / "nights").mkdir()
    (first / "results" / "shelf" / "nights" / path.name).write_bytes(b"a night")
    (first / "results" / ".journals").mkdir()
    (first / "results" / ".journals" / "x.journal.jsonl").write_text("going on")
    before = state(first), state(second)
    monkeypatch.chdir(first)
    assert main(["fetch", NAME]) == EXIT_OK
    assert "is not there yet: `hostbench push" in capsys.readouterr().out
    assert main(["push", NAME, "-m", "a night"]) == EXIT_OK
    assert "5 files pushed" in capsys.readouterr().out
    stored = [name for name in names(remote) if name.startswith("shelf/")]
    assert len(stored) == 4 and "shelf/machine.json" in stored
    assert (
        git(remote, "log", "--format=%an %ae %s", BRANCH) == "hostbench hostbench@localhost a night"
    )
    assert main(["push", NAME]) == EXIT_OK
    assert "nothing to push" in capsys.readouterr().out
    monkeypatch.chdir(second)
    assert main(["fetch", NAME]) == EXIT_OK
    assert "4 files brought" in capsys.readouterr().out
    assert (second / "results/shelf/runs" / path.name).read_bytes() == path.read_bytes()
    night = second / "results" / "shelf" / "nights" / path.name
    assert night.read_bytes() == b"a night"
    shutil.rmtree(night.parent)
    assert check.check(second / "results").findings == []
    assert main(["fetch", NAME]) == main(["fetch", NAME]) == EXIT_OK
    assert "0 files brought" in capsys.readouterr().out
    assert (state(first), state(second)) == before


def test_two_machines_push_at_once(remote: Path) -> None:
    """They begin with no branch at all, so that one of them comes too late."""
    roots = [clone(remote, f"box{number}") for number in range(3)]
    for number, root in enumerate(roots):
        measured(root, f"box-{number}", number)
    with ThreadPoolExecutor() as pool:
        pushed = list(pool.map(push_in, roots))
    assert all(len(one.files) == 2 for one in pushed)
    assert {name.partition("/")[0] for name in names(remote)} == {"box-0", "box-1", "box-2"}
    assert git(remote, "rev-list", "--count", BRANCH) == "3"


def push_in(root: Path) -> BranchSync:
    return push(root, root / "results", "origin", BRANCH, "results")


def fetch_in(root: Path) -> BranchSync:
    return fetch(root, root / "results", "origin", BRANCH)


def test_another_push_was_faster(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = clone(remote), clone(remote, "second")
    monkeypatch.setattr(results_branch, "PAUSE_S", 0.0)
    measured(first, "box-1")
    push_in(first)
    measured(first, "box-1", 2)
    send, waiting = RemoteBranch.send, [3, 4]

    def late(there: RemoteBranch, commit: str) -> str | None:
        """Between our fetch and our push somebody else pushes."""
        if there.root == first and waiting:
            measured(second, "box-2", waiting.pop())
            push_in(second)
        return send(there, commit)

    monkeypatch.setattr(RemoteBranch, "send", late)
    assert [Path(name).parts[0] for name in push_in(first).files] == ["box-1"]
    assert len([name for name in names(remote) if "/runs/" in name]) == 4

    monkeypatch.setattr(RemoteBranch, "send", lambda there, commit: "late")
    monkeypatch.setattr(results_branch, "ATTEMPTS", 3)
    measured(first, "box-1", 7)
    with pytest.raises(BrokenError, match=r"changed at each of 3 attempts .* nothing is lost"):
        push_in(first)


def test_a_machine_that_two_runners_share(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """asv's file of a commit holds the newest row of each benchmark; benchmarks.json all names."""
    first, second = clone(remote), clone(remote, "second")
    for root, started in ((first, STARTED_MS), (second, STARTED_MS + 60_000)):
        (root / "results").mkdir()
        asv_file(root / "results", started)
    (one,) = second.glob("results/shelf/*-*.json")
    data = json.loads(one.read_text())
    data["results"]["own.Own.track_seconds"] = next(iter(data["results"].values()))
    one.write_text(json.dumps(data))
    push_in(first)
    old = json.loads((first / "results" / "shelf" / one.name).read_text())["results"]
    assert push_in(second).files == (f"shelf/{one.name}",)
    fetch_in(first)
    new = json.loads((first / "results" / "shelf" / one.name).read_text())["results"]
    assert set(new) == {*old, "own.Own.track_seconds"} and new != old
    assert new["own.Own.track_seconds"] == data["results"]["own.Own.track_seconds"]
    read, asked = RemoteBranch.contents, set[str]()

    def contents(there: RemoteBranch, wanted: Mapping[str, Blob]) -> Iterator[tuple[str, bytes]]:
        asked.update(wanted)
        return read(there, wanted)

    monkeypatch.setattr(RemoteBranch, "contents", contents)
    assert push_in(first).files == fetch_in(second).files == ()
    assert asked <= {"shelf/machine.json"}, "what is the same is not read: years of it may be there"


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_a_file_is_known_by_gits_name_for_it(tmp_path: Path, kind: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={kind}")
    (tmp_path / "a").write_bytes(b"1\n")
    blob = Blob(sha=git(tmp_path, "hash-object", "a"), size=2, is_regular=True)
    assert blob.holds(b"1\n") and not blob.holds(b"2\n")


def test_what_people_write_is_taken_from_whoever_changed_it(remote: Path) -> None:
    first, second = clone(remote), clone(remote, "second")
    entry = "series: machine:shelf\nsince: 1a2b3c4d\ndirection: slower\nstate: {}\n"
    for root in (first, second):
        measured(root)
    paths = [root / "results" / "triage" / "one.txt" for root in (first, second)]
    paths[0].parent.mkdir()
    paths[0].write_text(entry.format("investigating"))
    push_in(first)
    fetch_in(second)
    assert paths[1].read_text() == entry.format("investigating")
    paths[1].write_text(entry.format("accepted"))
    assert push_in(second).files == ("triage/one.txt",)
    assert push_in(first).files == ()
    assert push_in(first).files == (), "what is old here is never pushed over what is new there"
    assert fetch_in(first).files == ("triage/one.txt",)
    assert paths[0].read_text() == entry.format("accepted")
    for path, text in zip(paths, ("noise", "expected"), strict=True):
        path.write_text(entry.format(text))
    push_in(first)
    for sync in (fetch_in, push_in, push_in):
        assert "triage/one.txt was edited on both sides" in str(sync(second).left)
    assert paths[1].read_text() == entry.format("expected")
    assert git(remote, "show", f"{BRANCH}:triage/one.txt") == entry.format("noise").strip()


def test_one_name_for_two_machines(remote: Path) -> None:
    """The other machines are shared all the same."""
    first, second = clone(remote), clone(remote, "second")
    measured(first, "box")
    push_in(first)
    measured(second, "box", 2, gpu="NVIDIA A100")
    measured(second, "other", 3)
    for sync in (push_in, fetch_in):
        done = sync(second)
        assert "machine 'box' is other hardware here: gpu is 'NVIDIA A100'" in str(done.left)
        assert "/tmp" not in str(done.left)
    runs = [name for name in names(remote) if "/runs/" in name]
    assert [name.partition("/")[0] for name in runs] == ["box", "other"]
    assert len(list((second / "results" / "box" / "runs").iterdir())) == 1


def test_foreign_and_hostile_content(remote: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = clone(remote)
    path = measured(root)
    push_in(root)
    whole = path.read_bytes()
    runs = "other/runs/20261121T12000{}Z-1a2b3c4d-0001.json.gz"
    hostile = {
        "index.html": b"<script>",
        "box/notes.sh": b"rm",
        "box/.git/config": b"[core]",
        "triage/..\\303\\251\\377.txt": b"x",
        "triage/\\033[2J.txt": b"x",
        "triage/a/b.txt": b"x",
        runs.format(2): b"no gzip",
    }
    commit_files(remote, hostile)
    commit_files(remote, {runs.format(3): b"/etc/passwd", "triage/l.txt": b"/etc/passwd"}, "120000")
    commit_files(remote, {runs.format(4): whole})
    done = fetch_in(root)
    assert done.files == (runs.format(4),)
    said = "\n".join(done.left)
    assert "are no results, left out" in said and "and 3 more" in said
    assert f"are no regular files, left out: {runs.format(3)}, triage/l.txt" in said
    assert f"{runs.format(2)} cannot be read" in said or runs.format(2) in said
    assert "\033" not in said and "/tmp" not in said
    kept = {path.relative_to(root / "results").as_posix() for path in root.glob("results/**/*")}
    assert not any(name in kept for name in (*hostile, "triage", "index.html"))
    measured(root, "shelf", 5)
    assert len(push_in(root).files) == 2, "what is foreign stays, and stops nobody"
    mine = root / "results" / "triage" / "mine.txt"
    mine.parent.mkdir()
    for number in range(3):
        mine.write_text(f"note: {number}\n")
        assert push_in(root).files == ("triage/mine.txt",)


def test_what_a_killed_git_leaves_stops_nobody(remote: Path) -> None:
    root = clone(remote)
    measured(root)
    push_in(root)
    ours = root / ".git" / "hostbench" / "results.git"
    (tip,) = ours.glob("refs/hostbench/*/next")
    for name in (
        "shallow.lock",
        "config.lock",
        "packed-refs.lock",
        f"{tip.relative_to(ours)}.lock",
    ):
        (ours / name).write_text("")
    measured(root, "shelf", 2)
    assert len(push_in(root).files) == 1
    shutil.rmtree(ours)
    ours.with_suffix(".new").mkdir()
    measured(root, "shelf", 3)
    assert len(push_in(root).files) == 1


def test_a_first_push_that_was_killed_leaves_no_half_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of sha256, which git would take for another kind without its configuration."""
    for options in (("--bare", "remote.git"), ("here",)):
        git(tmp_path, "init", "-q", "--object-format=sha256", *options)
    root = tmp_path / "here"
    git(root, "remote", "add", "origin", "../remote.git")
    measured(root)
    stub = tmp_path / "bin" / "git"
    stub.parent.mkdir()
    stub.write_text(
        f'#!/bin/sh\n{shutil.which("git")} "$@"\n'
        '[ "$1" != init ] || { : >"$GIT_DIR/config"; kill -9 $$; }\n'
    )
    stub.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(stub.parent), prepend=os.pathsep)
        with pytest.raises(BrokenError):
            push_in(root)
    assert len(push_in(root).files) == 2


def test_a_fetch_that_was_killed_is_done_to_its_end(remote: Path) -> None:
    """What a machine is comes after its runs."""
    first, second = clone(remote), clone(remote, "second")
    entry = measured(first).parent.parent / "machine.json"
    push_in(first)
    fetch_in(second)
    here = second / entry.relative_to(first)
    whole = here.read_bytes()
    here.unlink()
    fetch_in(second)
    assert here.read_bytes() == whole


def test_what_a_power_cut_leaves_stops_one_night(remote: Path) -> None:
    """Our repository can be made anew at any time."""
    root, other = clone(remote), clone(remote, "other")
    measured(root)
    push_in(root)
    ours = root / ".git" / "hostbench" / "results.git"
    for number, pattern in enumerate(("refs/**/tip", "objects/??/*", "HEAD"), start=2):
        measured(other, "box", number)
        push_in(other)
        fetch_in(root)
        for path in ours.glob(pattern):
            path.chmod(0o600)
            path.write_bytes(b"")
        measured(root, "shelf", number)
        with pytest.raises(BrokenError, match="were damaged and are deleted: try again"):
            push_in(root)
        assert not ours.exists()
        assert len(push_in(root).files) == 1


def test_a_partial_clone_gets_all_files_at_once(remote: Path) -> None:
    first, second = clone(remote), clone(remote, "second")
    measured(first)
    push_in(first)
    git(remote, "config", "uploadpack.allowFilter", "true")
    git(second, "remote", "set-url", "origin", f"file://{remote}")
    git(second, "config", "remote.origin.promisor", "true")
    git(second, "config", "remote.origin.partialclonefilter", "blob:none")
    assert len(fetch_in(second).files) == 1
    assert not list(second.glob(".git/hostbench/**/*.promisor")), "else git asks for each file"


def test_huge_files_stay_behind(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, second = clone(remote), clone(remote, "second")
    measured(root)
    push_in(root)
    monkeypatch.setattr(results_branch, "MAX_BYTES", 100)
    assert "larger than" in str(fetch_in(second).left)


def test_a_branch_of_code_is_refused(
    remote: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = clone(remote)
    git(root, "push", "-q", "origin", "main")
    measured(root)
    monkeypatch.chdir(root)
    for command in ("fetch", "push"):
        assert main([command, "origin/main"]) == EXIT_USAGE
        assert "origin/main is no results branch: it has asv.conf.json, code.py" in (
            capsys.readouterr().err
        )
    assert names(remote, "main") == [".gitignore", "asv.conf.json", "code.py"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hostbench-results", "is no REMOTE/BRANCH"),
        ("elsewhere/x", "of a remote that git knows here (origin)"),
        ("origin/a..b", "cannot name a branch"),
        ("origin/--force", "is an option"),
        ("origin/", "is no REMOTE/BRANCH|cannot name a branch"),
        ("https://u:s3cret@git.example/x/b", "'https://git.example/x/b' is no REMOTE/BRANCH"),
    ],
)
def test_wrong_names(
    remote: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    said: str,
) -> None:
    root = clone(remote)
    measured(root)
    monkeypatch.chdir(root)
    assert main(["push", name]) == EXIT_USAGE
    err = capsys.readouterr().err
    assert any(text in err for text in said.split("|")) and "s3cret" not in err


def test_nothing_to_push(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = clone(remote)
    monkeypatch.chdir(root)
    assert main(["push", NAME]) == EXIT_NOTHING_MEASURED
    (root / "results").mkdir()
    assert push_in(root) == BranchSync(commit=None)


def test_a_damaged_archive_is_not_pushed(remote: Path) -> None:
    """Nor what a link in the folder leads to."""
    root = clone(remote)
    (root / "results" / "triage").mkdir(parents=True)
    (root / "results" / "triage" / "a.txt").symlink_to(root / "code.py")
    bad = measured(root, "shelf", 2)
    bad.write_bytes(bad.read_bytes()[:40])
    good = measured(root)
    done = push_in(root)
    assert bad.name in str(done.left) and "triage/a.txt stays as it is: it is a link out" in str(
        done.left
    )
    assert [name.rpartition("/")[2] for name in names(remote)] == ["machine.json", good.name]


def test_without_a_git_repository_or_a_remote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fetch", NAME]) == EXIT_USAGE
    assert "no git repository" in capsys.readouterr().err
    git(tmp_path, "init", "-q")
    assert main(["fetch", NAME]) == EXIT_USAGE
    assert "it knows none" in capsys.readouterr().err
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    monkeypatch.chdir("bare.git")
    git(Path.cwd(), "remote", "add", "origin", "nowhere")
    assert main(["fetch", NAME, "--results", str(tmp_path / "results")]) == EXIT_USAGE
    assert "bare.git is no checkout" in capsys.readouterr().err


# The remote does not do its part


def test_a_remote_that_is_gone(remote: Path) -> None:
    root = clone(remote)
    measured(root)
    remote.rename(remote.with_name("away"))
    with pytest.raises(BrokenError, match=r"cannot be read: fatal: .*; the results here are whole"):
        push_in(root)


def test_a_remote_that_refuses_is_not_asked_again(remote: Path) -> None:
    root = clone(remote)
    measured(root)
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\necho x >>asked\necho 'This branch is \033[2Jprotected' >&2\nexit 1\n"
    )
    hook.chmod(0o755)
    said = r"cannot be pushed to: remote: This branch is .*protected / ! \[remote rejected\]"
    with pytest.raises(BrokenError, match=said) as refused:
        push_in(root)
    assert (remote / "asked").read_text() == "x\n" and "\033" not in str(refused.value)


def test_a_full_disk_is_a_failure(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = clone(remote)
    measured(root)

    def full(*_: object) -> str:
        raise repo.GitError("fatal: write error. Out of diskspace")

    monkeypatch.setattr(RemoteBranch, "commit", full)
    with pytest.raises(BrokenError, match="Out of diskspace; the results here are whole"):
        push_in(root)


def test_a_branch_that_cannot_be_is_not_tried_again(
    remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = clone(remote)
    git(root, "push", "-q", "origin", f"main:refs/heads/{BRANCH}/old")
    measured(root)
    monkeypatch.setattr(results_branch, "ATTEMPTS", 1)
    with pytest.raises(BrokenError, match=rf"cannot be pushed to: .*{BRANCH}/old' exists; cannot"):
        push_in(root)


def test_a_remote_that_does_not_answer(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = clone(remote)
    monkeypatch.setattr(remote_branch, "TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        git(root, "remote", "set-url", "origin", f"http://127.0.0.1:{port}/x.git")
        with pytest.raises(BrokenError, match=r"git ls-remote did not end within 0\.3 s"):
            fetch_in(root)


class _Asks(BaseHTTPRequestHandler):
    """A host that wants a password, and remembers what it was given."""

    given: list[str | None]

    def do_GET(self) -> None:
        self.given.append(self.headers.get("Authorization"))
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def asks() -> Iterator[tuple[str, list[str | None]]]:
    handler = type("Asks", (_Asks,), {"given": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler.given  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


def test_a_wrong_credential_asks_nobody_and_is_not_told(
    remote: Path,
    asks: tuple[str, list[str | None]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    root, (url, given) = clone(remote), asks
    measured(root)
    monkeypatch.chdir(root)
    secret = "s3cr3t-t0ken"
    git(root, "remote", "set-url", "origin", f"{url}/x.git")
    assert main(["push", NAME]) == EXIT_FAILED
    assert given == [None]
    said = capfd.readouterr().err
    assert "could not read Username" in said and f"; set {TOKEN} (https)" in said
    monkeypatch.setenv(TOKEN, secret)
    assert main(["push", NAME]) == EXIT_FAILED
    assert given[-1] == "Basic " + base64.b64encode(f"x-access-token:{secret}".encode()).decode()
    other = f"{url.replace('//', f'//u:p-{secret}@')}/x.git"
    git(root, "remote", "set-url", "origin", other)
    assert main(["push", NAME]) == EXIT_FAILED
    assert given[-1] == "Basic " + base64.b64encode(f"x-access-token:{secret}".encode()).decode()
    monkeypatch.delenv(TOKEN)
    assert main(["fetch", NAME]) == EXIT_FAILED
    assert given[-1] == "Basic " + base64.b64encode(f"u:p-{secret}".encode()).decode()
    assert secret not in "".join(capfd.readouterr())
    kept = root / ".git" / "hostbench"
    assert not any(
        secret.encode() in path.read_bytes() for path in kept.rglob("*") if path.is_file()
    )


def test_the_token_is_for_the_host_of_the_remote_alone() -> None:
    secure, local, plain = (
        remote_branch._credential(f"{start}/x.git")
        for start in ("https://u:p@git.example:8443", "http://localhost:1", "http://git.example")
    )
    assert secure[1][0] == "credential.https://git.example:8443.helper"
    assert ("http.followRedirects", "false") in secure
    assert local and not plain and not remote_branch._credential("git@git.example:x.git")


# Files


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("box/runs/a.json.gz", "kept"),
        ("box/nights/a.json.gz", "kept"),
        ("box/peers/a-nvbandwidth.json.gz", "kept"),
        ("notified/a.txt", "kept"),
        ("box/machine.json", "first"),
        ("box/1a2b3c4d-hostbench-py3.11.json", "rows"),
        ("benchmarks.json", "described"),
        ("box/benchmarks.json", "described"),
        ("triage/a.txt", "edited"),
        ("published.toml", "edited"),
        ("box/traces/a.svg", None),
        (".journals/a.journal.jsonl", None),
        ("box/.hidden-a.json", None),
        ("../box/machine.json", None),
        ("/box/machine.json", None),
        ("box//machine.json", None),
        ("box/runs/a\n.json.gz", None),
        ("box/runs/\u202ea.json.gz", None),
        ("pyproject.toml", None),
    ],
)
def test_what_is_shared(path: str, how: str | None) -> None:
    assert union.sharing(path) == how


def test_files_that_cannot_be_merged_stay_on_both_sides(remote: Path) -> None:
    first, second = clone(remote), clone(remote, "second")
    for root in (first, second):
        (root / "results").mkdir()
        asv_file(root / "results")
    (one,) = second.glob("results/shelf/*-*.json")
    push_in(first)
    whole = one.read_bytes()
    for wrong in ("[]", "{", '{"result_columns": []}', "[" * 100_000):
        with pytest.raises(DataError, match=one.name):
            union.merged(f"shelf/{one.name}", wrong.encode(), whole, None)
    many = b"{%s" % (b"," * (MAX_VALUES + 1))
    with pytest.raises(DataError, match="more than 4,000,000 values, the most that is read"):
        union.merged("benchmarks.json", b"{}", many, None)
    one.write_text("{")
    for sync in (push_in, fetch_in):
        assert one.name in str(sync(second).left)
    assert one.read_text() == "{"
    assert repo.git(remote, "rev-list", "--count", BRANCH) == "1"


def test_a_wrong_name_is_a_usage_error_from_python_too(remote: Path) -> None:
    root = clone(remote)
    with pytest.raises(UsageError, match="there is no remote 'nowhere'"):
        fetch(root, root / "results", "nowhere", BRANCH)
