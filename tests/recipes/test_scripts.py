"""What the recipes and docs/ci.md have a shell do is done, against a bare remote on disk.

In the short form `hostbench` is a stand-in that notes how it was called; those calls are then made
in this process. In the long form the shell starts the real program, on the simulated device.
"""

import fcntl
import gzip
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hostbench import recipes
from hostbench.cli import main
from hostbench.cli.commands import COMMANDS
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION, EXIT_USAGE
from tests.notify.servers import host
from tests.notify.test_comment import on_github
from tests.recipes.test_recipes import FOLDER, workflow
from tests.turns import git
from tests.vcs.test_results_branch import BRANCH, clone, measured, names

DOCS = FOLDER.parent.parent / "docs" / "ci.md"
SECRET = "T0KEN-of-the-job"
STAND_IN = """#!/bin/sh
# hostbench: notes its words, and whether it was given a token; ends as EXITS says.
[ "$1" = recipe ] && exec cat "$RECIPES/$2"
for word in "$@"; do printf '%s\\037' "$word"; done >>"$CALLS"
echo "${HOSTBENCH_GIT_TOKEN:+token}" >>"$CALLS"
trap 'echo stopped >>"$CALLS"; kill $!; exit 4' TERM
[ -z "${SLOW:-}" ] || { touch "$CALLS.slow"; sleep 30 & wait; }
exit "$(cat "$EXITS/$1" 2>/dev/null || echo 0)"
"""
PYTHON = """#!/bin/sh
# python3 -m venv DIR, without the seconds that it takes
[ "$1 $2" = "-m venv" ] || exit 9
mkdir -p "$3/bin"
pwd >"$BIN/../venvs"
cp "$BIN/hostbench" "$3/bin/hostbench"
printf '#!/bin/sh\\necho "$*" >>"$CALLS.pip"\\n' >"$3/bin/pip"
chmod +x "$3/bin/pip"
"""


@dataclass
class Runner:
    """A machine of CI: a checkout, a remote, and what is on its PATH."""

    root: Path
    remote: Path
    env: dict[str, str]
    device: str = "cuda"
    """What the line DEVICE of a recipe is set to."""
    said: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.root.parent

    def shell(self, script: str, *flags: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", *flags, "-c", script],
            cwd=self.root,
            env={**self.env, **more},
            capture_output=True,
            text=True,
            timeout=600,
        )

    def ends_with(self, **exits: int) -> None:
        """The exit codes of the stand-in, by command; 0 else."""
        (self.folder / "calls").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "exits", ignore_errors=True)
        (self.folder / "exits").mkdir()
        for name, code in exits.items():
            (self.folder / "exits" / name).write_text(str(code))

    def calls(self) -> list[list[str]]:
        """The words of each call; a last one, `token`, where it was given one."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [list(filter(None, line.split("\x1f"))) for line in lines]

    def own(self, env: Mapping[str, str]) -> dict[str, str]:
        """What its owner has set in a recipe that has this line."""
        return {"DEVICE": self.device} if "DEVICE" in env else {}

    def job(self, job: Mapping[str, Any], env: Mapping[str, str]) -> int:
        """The steps of a workflow's job, as GitHub goes through them."""
        added = self.folder / "path"
        added.write_text("")
        failed = 0
        for step in job["steps"]:
            if "run" not in step or (failed and "always()" not in step.get("if", "")):
                continue
            given = {key: _filled(value) for key, value in step.get("env", {}).items()}
            path = os.pathsep.join([*added.read_text().split(), self.env["PATH"]])
            more = {**env, **self.own(env), **given, "PATH": path, "GITHUB_PATH": str(added)}
            done = self.shell(step["run"], "-e", **more)
            self.said += [step["run"], done.stdout, done.stderr]
            if done.returncode and not step.get("continue-on-error"):
                failed = failed or done.returncode
        return failed


def _filled(text: str) -> str:
    return {"${{ github.token }}": SECRET}.get(text, "")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    remote = tmp_path / "remote.git"
    root = clone(remote)
    git(root, "push", "-q", "origin", "main")
    git(root, "remote", "set-head", "origin", "main")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("hostbench", STAND_IN), ("python3", PYTHON)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (tmp_path / "home").mkdir()
    (tmp_path / "temp").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    tools = Path(sys.executable).parent
    env = {
        **kept,
        "PATH": os.pathsep.join([str(folder), kept["PATH"], str(tools)]),
        "HOME": str(tmp_path / "home"),
        "BIN": str(folder),
        "CALLS": str(tmp_path / "calls"),
        "EXITS": str(tmp_path / "exits"),
        "RECIPES": str(FOLDER),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "CI_PROJECT_DIR": str(root),
        "CHECKOUT": str(root),
        "VENV": str(tmp_path),
    }
    return Runner(root=root, remote=remote, env=env)


def test_a_night_on_github(runner: Runner) -> None:
    """The results are pushed whatever the night came to; the token is for two steps."""
    whole = workflow("github-nightly.yml")
    (job,) = whole["jobs"].values()
    branch = f"origin/{BRANCH}"
    page = str(runner.folder / "temp/hostbench.html")
    usual = ["nightly", "--budget", "45m", "--device", "cuda", "--page", page]
    every = [["fetch", branch, "token"], usual, ["push", branch, "token"]]
    for exits, code in (({}, 0), ({"nightly": 1}, 1), ({"fetch": 4}, 0), ({"push": 4}, 4)):
        runner.ends_with(**exits)
        assert runner.job(job, whole["env"]) == code
        assert runner.calls() == every
    assert set((runner.folder / "calls.pip").read_text().splitlines()) == {
        f"install --quiet {whole['env']['HOSTBENCH']}"
    }


def test_a_comparison_on_github(runner: Runner) -> None:
    whole = workflow("github-compare.yml")
    (job,) = whole["jobs"].values()
    runner.ends_with(ab=1)
    assert runner.job(job, whole["env"]) == EXIT_REGRESSION
    ((*words, name, file),) = runner.calls()
    assert words[-2:] == ["--device", "cuda"]
    handed = Path(job["steps"][-1]["with"]["path"])
    folder = job["defaults"]["run"]["working-directory"]
    assert (name, Path(folder, file)) == ("--comment", handed)
    whole = workflow("github-comment.yml")
    (job,) = whole["jobs"].values()
    runner.ends_with()
    assert runner.job(job, whole["env"]) == EXIT_OK
    taken = Path(
        job["steps"][0]["with"]["path"].replace("${{ runner.temp }}", runner.env["RUNNER_TEMP"])
    )
    assert runner.calls() == [["comment", str(taken / handed.name)]]


def test_a_check_on_github(runner: Runner) -> None:
    whole = workflow("github-check.yml")
    (job,) = whole["jobs"].values()
    job["steps"] = [step for step in job["steps"] if step["name"] != "Install"]
    runner.ends_with(run=4)
    assert runner.job(job, whole["env"]) == 4
    sync, run = runner.calls()
    assert (sync[0], run[:4]) == ("sync-benchmarks", ["run", "--quick", "--device", "cpu"])


def gitlab(runner: Runner, name: str, **more: str) -> int:
    """A job of GitLab's: one shell, then another for what comes after."""
    whole = workflow("gitlab.yml")
    job = {**whole[".hostbench"], **whole[name]} if "extends" in whole[name] else whole[name]
    variables = {**whole[".hostbench"]["variables"], **job.get("variables", {}), **more}
    variables |= runner.own(variables)
    before = "\n".join([*job.get("before_script", []), *job["script"]])
    code = runner.shell(before, "-eo", "pipefail", **variables).returncode
    for line in job.get("after_script", []):
        runner.shell(line, **variables)
    return code


def test_gitlabs_jobs(runner: Runner) -> None:
    branch = f"origin/{BRANCH}"
    for exits, code in (({}, 0), ({"nightly": 3, "fetch": 4}, 3), ({"push": 4}, 4)):
        runner.ends_with(**exits)
        assert gitlab(runner, "hostbench-nightly") == code
        fetch, nightly, *pushes = runner.calls()
        assert (fetch, nightly[0]) == (["fetch", branch], "nightly")
        assert nightly[3:5] == ["--device", "cuda"]
        assert pushes == [["push", branch]] * 2
    runner.ends_with(ab=1)
    about = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "1a2b", "CI_PIPELINE_ID": "7"}
    for kind, base in (("detached", "1a2b"), ("merged_result", "HEAD^1")):
        more = {**about, "CI_MERGE_REQUEST_EVENT_TYPE": kind}
        assert gitlab(runner, "hostbench-compare", **more) == 1
        words = runner.calls()[-1]
        assert words[:3] == ["ab", base, "HEAD"] and words[5:7] == ["--device", "cuda"]
        kept = runner.root / words[words.index("--results") + 1]
        assert runner.root / "results" != kept, "a request's numbers are no night's to push"


def test_gitlabs_comment_is_of_its_own_pipeline(runner: Runner) -> None:
    """GitLab leaves the files of earlier jobs where the job that has the token starts."""
    runner.ends_with()
    assert gitlab(runner, "hostbench-comment", GITLAB_TOKEN="", CI_PIPELINE_ID="7") == 0
    (runner.root / "comment-6.md").write_text("another request's")
    (runner.root / "venv.py").write_text("raise SystemExit('a request has written this')")
    assert gitlab(runner, "hostbench-comment", GITLAB_TOKEN=SECRET, CI_PIPELINE_ID="7") == 0
    assert not (runner.folder / "calls").exists(), "no token, or no comment: nothing is posted"
    handed = runner.root / f"{workflow('gitlab.yml')['hostbench-compare']['artifacts']['paths'][0]}"
    handed = handed.with_name(handed.name.replace("$CI_PIPELINE_ID", "7"))
    handed.write_text("ours")
    assert gitlab(runner, "hostbench-comment", GITLAB_TOKEN=SECRET, CI_PIPELINE_ID="7") == 0
    assert runner.calls() == [["comment", str(handed)]]
    assert Path((runner.folder / "venvs").read_text().strip()) != runner.root


def test_a_night_of_cron_follows_the_main_branch(runner: Runner) -> None:
    other = clone(runner.remote, "other")
    (other / "code.py").write_text("2\n")
    git(other, "commit", "-q", "-a", "-m", "newer")
    git(other, "push", "-q", "origin", "main")
    (runner.root / "code.py").write_text("as asv leaves benchmarks.json\n")
    git(runner.root, "remote", "set-head", "origin", "-d")
    runner.ends_with(nightly=1)
    script = shlex.quote(str(FOLDER / "nightly.sh"))
    assert runner.shell(f"sh {script} --quick").returncode == 1
    ((command, *words),) = runner.calls()
    assert command == "nightly" and words[-1:] == ["--quick"]
    assert words[words.index("--device") + 1] == "cuda"
    assert words[words.index("--push") + 1] == f"origin/{BRANCH}"
    assert git(runner.root, "rev-parse", "HEAD") == git(other, "rev-parse", "HEAD")
    assert git(runner.root, "rev-parse", "main") != git(other, "rev-parse", "HEAD")


def test_a_night_of_cron_without_the_remote_or_beside_another_night(runner: Runner) -> None:
    """What is here is measured; what another night measures stays as it is."""
    script = shlex.quote(str(FOLDER / "nightly.sh"))
    (runner.folder / "bin" / "sleep").symlink_to("/bin/true")
    other = clone(runner.remote, "other")
    git(other, "commit", "-q", "--allow-empty", "-m", "newer")
    git(other, "push", "-q", "origin", "main")
    before = git(runner.root, "rev-parse", "HEAD")
    runner.ends_with()
    with (runner.folder / "nightly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = runner.shell(f"sh {script}")
    assert done.returncode == EXIT_NOTHING_MEASURED and "another night" in done.stderr
    assert not (runner.folder / "calls").exists()
    runner.remote.rename(runner.remote.with_name("away"))
    done = runner.shell(f"sh {script}")
    assert done.returncode == EXIT_OK and "does not answer" in done.stderr
    assert len(runner.calls()) == 1 and git(runner.root, "rev-parse", "HEAD") == before


@pytest.mark.parametrize("name", ["github-nightly.yml", "nightly.sh"])
def test_a_signal_reaches_hostbench(runner: Runner, name: str) -> None:
    """A CI job that is cancelled, a unit that is stopped: what was measured is kept."""
    runner.ends_with()
    script = recipes.read(name)
    if name.endswith(".yml"):
        (job,) = workflow(name)["jobs"].values()
        (script,) = (step["run"] for step in job["steps"] if "nightly" in step.get("run", ""))
    process = subprocess.Popen(
        ["bash", "-c", f"{script}\n"], cwd=runner.root, env={**runner.env, "SLOW": "1"}
    )
    limit = time.monotonic() + 20
    while not (runner.folder / "calls.slow").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 4
    assert runner.calls()[-1] == ["stopped"]


def blocks() -> list[str]:
    """What docs/ci.md has a person type, in its order."""
    return [
        re.sub(r"^ {3}", "", block, flags=re.MULTILINE)
        for block in re.findall(
            r"^ *```sh\n(.*?)^ *```", DOCS.read_text(), re.MULTILINE | re.DOTALL
        )
    ]


def call(words: Sequence[str]) -> None:
    """What the stand-in has noted; of a call that measures or serves, only read its words."""
    if words[0] in ("fetch", "push"):
        assert main(words) == EXIT_OK
    elif words[0] == "changes":
        assert main(words) == EXIT_NOTHING_MEASURED, "one run is too little to judge"
    else:
        COMMANDS.commands[words[0]].make_context(words[0], list(words[1:]))


def test_every_command_of_the_page(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its order, from no results branch at all to one that is looked at elsewhere."""
    monkeypatch.chdir(runner.root)
    measured(runner.root)
    for name in ("CHECKOUT", "VENV"):  # where nightly.sh looks of itself
        del runner.env[name]
    runner.ends_with()
    runner.shell("hostbench")
    done = 1
    for block in blocks():
        ended = runner.shell(block, "-eu")
        assert ended.returncode == 0, f"{block}\n{ended.stdout}{ended.stderr}"
        calls = runner.calls()
        for words in calls[done:]:
            call(words)
        done = len(calls)
    assert {words[0] for words in calls[1:]} >= {"doctor", "fetch", "nightly", "push", "ab"}
    assert "shelf/machine.json" in names(runner.remote)
    assert (runner.folder / "all-results" / "shelf" / "machine.json").is_file()


# The long form: the real program, on the simulated device

PROGRAM = f"""#!/bin/sh
exec "{sys.executable}" -m hostbench "$@"
"""
WORKLOAD = '''
from hostbench import DEVICES, MIB, workload


@workload(axes={"device": DEVICES, "nbytes": (MIB,)}, quick=lambda **_: True, version="1")
def copy(device, nbytes):
    """One copy. Timed: the copy."""
    source, target = device.host_buffer(nbytes, pinned=False), device.buffer(nbytes)
    return lambda: device.copy(target, source, blocking=True)
'''


@pytest.fixture
def real(runner: Runner) -> Runner:
    """The same machine, with the program itself and a workload in the checkout."""
    (runner.folder / "bin" / "hostbench").write_text(PROGRAM)
    project = {
        "pyproject.toml": '[tool.hostbench]\nworkloads = ["bench/"]\n',
        "bench/steps.py": WORKLOAD,
    }
    for name, text in project.items():
        (runner.root / name).parent.mkdir(exist_ok=True)
        (runner.root / name).write_text(text)
    for name in ("HOSTBENCH_WEBHOOK", "GITHUB_TOKEN", "GITLAB_TOKEN"):
        runner.env[name] = f"https://hook.invalid/{SECRET}"
    runner.env |= {"CUDA_VISIBLE_DEVICES": "", "HOSTBENCH_MACHINE": "box-1"}
    runner.device = runner.env["DEVICE"] = "simulated"
    assert runner.shell("hostbench sync-benchmarks").returncode == 0
    git(runner.root, "add", "-A")
    git(runner.root, "commit", "-q", "-m", "a workload")
    git(runner.root, "push", "-q", "origin", "main")
    return runner


@pytest.mark.soak
def test_a_request_is_compared_and_commented_on(
    real: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(real.root, "checkout", "-q", "-b", "request")
    git(real.root, "commit", "-q", "--allow-empty", "-m", "a change")
    git(real.root, "checkout", "-q", "main")
    git(real.root, "merge", "-q", "--no-ff", "-m", "as GitHub merges it", "request")
    whole = workflow("github-compare.yml")
    (job,) = whole["jobs"].values()
    assert real.job(job, whole["env"]) == EXIT_OK
    handed = real.folder / "temp" / "comment" / "comment.md"
    handed.parent.mkdir()
    (real.root / "comment.md").rename(handed)
    whole = workflow("github-comment.yml")
    (job,) = whole["jobs"].values()
    with host() as hub:
        on_github(hub, monkeypatch, real.folder, {"pull_request": {"number": 7}})
        kept = {name: os.environ[name] for name in os.environ if name.startswith("GITHUB_")}
        real.env |= {**kept, "BIN": str(real.folder / "bin")}
        assert real.job(job, whole["env"]) == EXIT_OK
    ((_, body),) = hub.named("POST")
    assert body["body"].splitlines()[1].startswith("**Same:**")


@pytest.mark.soak
def test_a_check_runs_every_workload(real: Runner) -> None:
    whole = workflow("github-check.yml")
    (job,) = whole["jobs"].values()
    job["steps"] = [step for step in job["steps"] if step["name"] != "Install"]
    assert real.job(job, whole["env"]) == EXIT_OK
    (real.root / "bench" / "steps.py").write_text(WORKLOAD.replace("MIB,)", "MIB, 2 * MIB)"))
    assert real.job(job, whole["env"]) == EXIT_USAGE, "asv does not know the new case"


@pytest.mark.soak
def test_nights_of_two_machines_at_once(real: Runner) -> None:
    """The second pushes after the first, whichever that is; a third looks at both. What is
    simulated without a file is never judged: exit code 3."""
    other, third = clone(real.remote, "other"), clone(real.remote, "third")
    for root in (other, third):
        git(root, "pull", "-q", "origin", "main")
    whole = workflow("github-nightly.yml")
    (job,) = whole["jobs"].values()
    second = replace(real, root=other, env={**real.env, "HOSTBENCH_MACHINE": "box-2"}, said=[])
    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(lambda one: one.job(job, whole["env"]), (real, second)))
    assert codes == [EXIT_NOTHING_MEASURED] * 2, "\n".join([*real.said, *second.said])
    runs = [name for name in names(real.remote) if "/runs/" in name]
    assert len({name.partition("/")[0] for name in runs}) == 2
    assert git(real.root, "status", "--porcelain") == ""
    written = (
        path for root in (real.root, real.remote, real.folder / "temp") for path in root.rglob("*")
    )
    kept = b"".join(path.read_bytes() for path in written if path.is_file())
    unpacked = b"".join(
        map(gzip.decompress, (path.read_bytes() for path in real.root.rglob("*.gz")))
    )
    assert SECRET.encode() not in kept + unpacked and SECRET not in "".join(real.said)
    looking = Runner(root=third, remote=real.remote, env=real.env)
    assert looking.shell(f"hostbench fetch origin/{BRANCH}").returncode == 0
    assert len(list(third.glob("results/*/runs/*"))) == len(runs)


@pytest.mark.soak
def test_gitlab_and_cron_with_the_program(real: Runner) -> None:
    assert gitlab(real, "hostbench-nightly") == EXIT_NOTHING_MEASURED
    script = shlex.quote(str(FOLDER / "nightly.sh"))
    assert real.shell(f"sh {script}").returncode == EXIT_NOTHING_MEASURED
    assert len([name for name in names(real.remote) if "/runs/" in name]) == 2
    assert (real.folder / "summary.md").is_file()
