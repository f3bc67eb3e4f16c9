"""The recipes of docs/recipes: they fit their schemas, are safe to copy, and do what they say, with
stand-ins for hostbench, pip, gh and curl, and git against a bare remote on disk."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from hostbench.core.units import parse_seconds
from tests.scratch import git
from tests.test_docs import parse
from tests.test_layers import PYPROJECT, ROOT

FOLDER = ROOT / "docs" / "recipes"
WORKFLOWS = tuple(sorted(path.name for path in FOLDER.glob("github-*")))
BRANCH = "hostbench-results"
STAND_IN = """#!/bin/sh
# Notes its name and words, and whether it was given a token; ends as EXITS says.
echo "${0##*/} $*${TOKEN:+ token}${GITLAB_TOKEN:+ token}" >>"$CALLS"
case "$*" in *"pr list"*) echo 7 ;; *"--jq"*) echo "${COMMENT:-}" ;; esac
exit "$(cat "$EXITS/$1" 2>/dev/null || echo 0)"
"""
PYTHON = """#!/bin/sh
# python3 -m venv DIR, without the seconds that it takes
mkdir -p "$3/bin"
cp "$BIN/hostbench" "$3/bin/hostbench"
cp "$BIN/hostbench" "$3/bin/pip"
"""


def read(name: str) -> str:
    return (FOLDER / name).read_text()


def workflow(name: str) -> Any:
    return YAML(typ="safe").load(read(name))


def job(name: str) -> Any:
    (only,) = workflow(name)["jobs"].values()
    return only


@pytest.mark.parametrize(
    ("schema", "names", "more"),
    [
        ("vendor.github-workflows", WORKFLOWS, ()),
        ("custom.github-workflows-require-timeout", WORKFLOWS, ()),
        ("vendor.gitlab-ci", ("gitlab.yml",), ("--data-transform", "gitlab-ci")),
    ],
)
def test_they_fit_their_schemas(
    schema: str, names: tuple[str, ...], more: tuple[str, ...], tmp_path: Path
) -> None:
    from check_jsonschema import main as check_jsonschema  # half a second in each test process

    wrong = tmp_path / "wrong.yml"
    wrong.write_text(read(names[0]).replace("timeout", "time_limit"))
    for paths, code in ([str(FOLDER / name) for name in names], 0), ([str(wrong)], 1):
        with pytest.raises(SystemExit) as ended:
            check_jsonschema(["--builtin-schema", schema, *more, *paths])
        assert (ended.value.code or 0) == code


def test_workflows_give_nothing_away() -> None:
    zizmor = (Path(sys.executable).with_name("zizmor"), "--offline", "--no-config", "--quiet")
    paths = [FOLDER / name for name in WORKFLOWS]
    done = subprocess.run(
        [*zizmor, "--persona=pedantic", "--no-progress", *paths], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in WORKFLOWS:
        for step in job(name)["steps"]:
            if "actions/checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
    compare = read("github-compare.yml")
    assert "secrets." not in compare and "token" not in compare
    assert job("github-compare.yml")["permissions"] == {"contents": "read"}
    assert "actions/checkout" not in read("github-comment.yml")


def test_the_limits_leave_time_for_the_budget() -> None:
    for name in ("github-nightly.yml", "github-compare.yml"):
        steps = job(name)["steps"]
        (measuring,) = (step for step in steps if "--budget" in step.get("run", ""))
        budget = parse_seconds(measuring["run"].split("--budget ")[1].split()[0])
        limit = measuring["timeout-minutes"] * 60
        assert budget + 600 <= limit < job(name)["timeout-minutes"] * 60
        assert measuring["run"].startswith("exec ")
        assert all(step["if"] == "${{ always() }}" for step in steps[steps.index(measuring) + 1 :])
    night = workflow("gitlab.yml")["hostbench-nightly"]
    limits = night["variables"]
    script, after = (
        parse_seconds(limits[f"RUNNER_{part}_TIMEOUT"]) for part in ("SCRIPT", "AFTER_SCRIPT")
    )
    assert 45 * 60 < script and script + after < parse_seconds(night["timeout"].split()[0] + "m")


def test_a_shell_cron_and_systemd_can_read_them(tmp_path: Path) -> None:
    scripts = [step["run"] for name in WORKFLOWS for step in job(name)["steps"] if "run" in step]
    for one in workflow("gitlab.yml").values():
        scripts += ["\n".join(one[part]) for part in ("script", "after_script") if part in one]
    for shell, text in (
        *(("bash", one) for one in scripts),
        *(("sh", read(path.name)) for path in FOLDER.glob("*.sh")),
    ):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)
    assert 'exec "$VENV/bin/hostbench" nightly' in read("nightly.sh"), "it gets signals itself"
    (line,) = (one for one in read("crontab").splitlines() if not one.startswith("#"))
    assert re.match(r"\d+ \d+ \* \* \* [^%]+$", line), "cron makes a line end of %"
    units = ConfigParser(interpolation=None)
    names = ("hostbench-nightly.service", "hostbench-nightly.timer")
    for name in names:
        text = read(name).replace("%h/hostbench-nightly", "/bin/true")
        (tmp_path / name).write_text(text)
        units.read_string(text)
    assert set(units.sections()) == {"Unit", "Service", "Timer", "Install"}
    if program := shutil.which("systemd-analyze"):
        verify = (program, "verify", "--man=no", *(f"./{name}" for name in names))
        done = subprocess.run(verify, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.stdout + done.stderr == ""


def test_the_wheel_has_what_init_writes() -> None:
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["hostbench._docs"]
    files = {path for path in FOLDER.rglob("*") if path.is_file()}
    assert files <= {path for pattern in patterns for path in FOLDER.parent.glob(pattern)}


@dataclass
class Runner:
    """A machine of CI: a checkout of a bare remote, and what is on its PATH."""

    root: Path
    env: dict[str, str]

    @property
    def folder(self) -> Path:
        return self.root.parent

    def shell(self, script: str, *flags: str, **more: str) -> int:
        line = ["bash", *flags, "-c", script]
        return subprocess.run(line, cwd=self.root, env={**self.env, **more}, timeout=60).returncode

    def ends_with(self, **exits: int) -> None:
        """The exit codes of the stand-ins, by their first word; 0 else."""
        (self.folder / "calls").write_text("")
        shutil.rmtree(self.folder / "exits", ignore_errors=True)
        (self.folder / "exits").mkdir()
        for name, code in exits.items():
            (self.folder / "exits" / name).write_text(str(code))

    def calls(self) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        for line in lines:
            if line.startswith("hostbench "):
                parse(line.split()[1:])
        return [line for line in lines if not line.startswith(("pip", "python"))]

    def github(self, name: str, **env: str) -> int:
        """The steps of a workflow's job, as GitHub goes through them."""
        added = self.folder / "path"
        added.write_text("")
        failed = 0
        for step in job(name)["steps"]:
            if "run" not in step or (failed and "always()" not in step.get("if", "")):
                continue
            given = {key: "T0KEN" for key, text in step.get("env", {}).items() if "token" in text}
            path = os.pathsep.join([*added.read_text().split(), self.env["PATH"]])
            whole = {**_texts(workflow(name).get("env", {})), **given, **env, "PATH": path}
            code = self.shell(step["run"], "-e", **whole, GITHUB_PATH=str(added))
            failed = failed or code
        return failed

    def gitlab(self, name: str, **env: str) -> int:
        """A job of GitLab's: one shell, then another for what comes after."""
        whole = workflow("gitlab.yml")
        one = {**whole[".hostbench"], **whole[name]} if "extends" in whole[name] else whole[name]
        variables = {**_texts(whole[".hostbench"]["variables"]), **env}
        variables["RESULTS"] = str(self.folder / "kept")
        before = "\n".join([*one.get("before_script", []), *one["script"]])
        code = self.shell(before, "-eo", "pipefail", **variables)
        for line in one.get("after_script", []):
            self.shell(line, **variables)
        return code


def _texts(variables: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in variables.items()}


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(tmp_path, "clone", "-q", "remote.git", "here")
    root = tmp_path / "here"
    for folder in (".github", ".gitlab"):
        (root / folder).mkdir()
        shutil.copy(FOLDER / "share-results.sh", root / folder)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "code")
    git(root, "push", "-q", "origin", "HEAD:main")
    (tmp_path / "bin").mkdir()
    for name in ("hostbench", "pip", "python", "gh", "curl", "python3"):
        (tmp_path / "bin" / name).write_text(PYTHON if name == "python3" else STAND_IN)
        (tmp_path / "bin" / name).chmod(0o755)
    own = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "BIN": str(tmp_path / "bin"),
        "CALLS": str(tmp_path / "calls"),
        "EXITS": str(tmp_path / "exits"),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_STEP_SUMMARY": "step.md",
        "CI_PROJECT_DIR": str(root),
        "CHECKOUT": str(root),
        "VENV": str(tmp_path),
        "SHARE": str(tmp_path / "bin" / "share-results"),
    }
    shutil.copy(FOLDER / "share-results.sh", tmp_path / "bin" / "share-results")
    (tmp_path / "bin" / "share-results").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    made = Runner(root=root, env={**kept, **own})
    made.ends_with()
    return made


def test_machines_share_a_branch(runner: Runner) -> None:
    """Each pushes what it has, also where another has pushed meanwhile, and journals stay."""
    other = runner.folder / "other"
    git(runner.folder, "clone", "-q", "-b", "main", "remote.git", "other")
    mine, theirs = runner.folder / BRANCH, runner.folder / "theirs"
    second = Runner(root=other, env={**runner.env, "RESULTS": str(theirs)})
    share = f"sh {FOLDER / 'share-results.sh'}"
    for one, folder, name in ((runner, mine, "a"), (second, theirs, "b")):
        assert one.shell(f"{share} get") == 0
        (folder / name).mkdir()
        (folder / name / "run.json.gz").write_text(name)
        (folder / "benchmarks.json").write_text(f"asv's, as {name} has it")
        (folder / ".journals").mkdir()
        (folder / ".journals" / "x.jsonl").write_text("in progress")
    assert runner.shell(f"{share} put") == second.shell(f"{share} put") == 0
    assert runner.shell(f"{share} put") == 0, "nothing new"
    assert runner.shell(f"{share} get") == 0
    files = git(runner.folder / "remote.git", "ls-tree", "-r", "--name-only", BRANCH).split()
    assert files == ["a/run.json.gz", "b/run.json.gz", "benchmarks.json"]
    assert (mine / "b" / "run.json.gz").is_file()
    assert (mine / "benchmarks.json").read_text() == "asv's, as b has it"
    (mine / "a" / "late.json.gz").write_text("of a night that was killed")
    (runner.folder / "remote.git").rename(runner.folder / "away")
    assert runner.shell(f"{share} get") == 0, "a night is measured without the remote"
    assert runner.shell(f"{share} put", PATH=_no_sleep(runner)) == 1
    (runner.folder / "away").rename(runner.folder / "remote.git")
    assert runner.shell(f"{share} put") == 0
    assert not git(runner.root, "branch", "--list", BRANCH), "actions/checkout deletes branches"
    shutil.rmtree(runner.root / ".git" / "worktrees")  # or makes the checkout anew
    assert runner.shell(f"{share} get") == 0 and (mine / "a" / "late.json.gz").is_file()
    assert len(git(mine, "ls-tree", "-r", "--name-only", f"origin/{BRANCH}").split()) == 4


def _no_sleep(runner: Runner) -> str:
    (runner.folder / "bin" / "sleep").symlink_to("/bin/true")
    return runner.env["PATH"]


def test_on_github(runner: Runner) -> None:
    """What a night came to is its exit code; results are pushed in any case."""
    for code in (0, 1):
        runner.ends_with(nightly=code)
        assert runner.github("github-nightly.yml") == code
        (called,) = runner.calls()
        assert "--device cuda --results ../hostbench-results --summary step.md" in called
        assert "token" not in called
    runner.ends_with(ab=1)
    assert runner.github("github-compare.yml") == 1
    assert runner.calls() == [
        "hostbench ab HEAD^1 HEAD --budget 10m --device cuda --comment comment.md"
    ]
    runner.ends_with(run=4)
    assert runner.github("github-check.yml") == 4
    handed = runner.folder / "temp" / "comment" / "comment.md"
    handed.parent.mkdir(parents=True)
    handed.write_text("found")
    about = {"REPO": "o/r", "SHA": "abc", "GH_TOKEN": "T0KEN"}
    for comment, posted in (
        ("", "api --silent repos/o/r/issues/7/comments"),
        ("12", "api --silent --method PATCH repos/o/r/issues/comments/12"),
    ):
        runner.ends_with()
        assert runner.github("github-comment.yml", COMMENT=comment, **about) == 0
        assert runner.calls()[-1] == f"gh {posted} -F body=@{handed}"
    handed.unlink()
    handed.symlink_to("/proc/self/environ")
    runner.ends_with()
    assert runner.github("github-comment.yml", **about) == 1 and not runner.calls()


def test_on_gitlab(runner: Runner) -> None:
    runner.ends_with(nightly=3)
    assert runner.gitlab("hostbench-nightly") == 3
    assert [one.split()[:2] for one in runner.calls()] == [["hostbench", "nightly"]]
    about = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "1a2b", "CI_PIPELINE_ID": "7"}
    for kind, base in (("detached", "1a2b"), ("merged_result", "HEAD^1")):
        runner.ends_with(ab=1)
        assert runner.gitlab("hostbench-compare", **about, CI_MERGE_REQUEST_EVENT_TYPE=kind) == 1
        assert runner.calls()[0].startswith(f"hostbench ab {base} HEAD --budget 10m --device cuda")
    runner.ends_with()
    for token in ("", "T0KEN"):  # and no comment of this pipeline's
        assert runner.gitlab("hostbench-comment", **about, GITLAB_TOKEN=token) == 0
    assert not runner.calls()
    (runner.root / "comment-7.md").write_text("**Same**\n/merge\n")
    assert runner.gitlab("hostbench-comment", **about, GITLAB_TOKEN="T0KEN") == 0
    (called,) = runner.calls()
    assert called.startswith("curl --fail") and "body@posted.md" in called
    assert (runner.root / "posted.md").read_text() == "**Same**\n\\/merge\n"


def test_a_night_of_cron(runner: Runner) -> None:
    """It follows the main branch, measures what is here without it, and leaves another alone."""
    git(runner.folder, "clone", "-q", "-b", "main", "remote.git", "other")
    other = runner.folder / "other"
    git(other, "commit", "-q", "--allow-empty", "-m", "newer")
    git(other, "push", "-q", "origin", "main")
    kept = str(runner.folder / "kept")
    script = f"sh {FOLDER / 'nightly.sh'}"
    runner.ends_with(nightly=1)
    assert runner.shell(f"{script} transfer", RESULTS=kept) == 1
    (called,) = runner.calls()
    assert f"--device cuda --results {kept}" in called and called.endswith(" transfer")
    assert git(runner.root, "rev-parse", "HEAD") == git(other, "rev-parse", "HEAD")
    Path(kept, "run.json.gz").write_text("measured")
    assert runner.shell(f"{script} put", RESULTS=kept) == 0
    assert git(runner.folder / "remote.git", "ls-tree", "--name-only", BRANCH) == "run.json.gz"
    runner.ends_with()
    with (runner.folder / "nightly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert runner.shell(script, RESULTS=kept) == 3 and not runner.calls()
    (runner.folder / "remote.git").rename(runner.folder / "away")
    assert runner.shell(script, RESULTS=kept, PATH=_no_sleep(runner)) == 0 and runner.calls()
