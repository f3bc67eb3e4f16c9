"""The recipes: their syntax, and that they are safe to copy."""

import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from check_jsonschema import main as check_jsonschema
from ruamel.yaml import YAML

from hostbench import recipes
from hostbench.cli import main
from hostbench.core.errors import EXIT_OK, EXIT_USAGE
from hostbench.core.units import parse_seconds
from tests.test_layers import PYPROJECT

FOLDER = Path(recipes.__file__).parent
WORKFLOWS = tuple(name for name in recipes.PLACES if name.startswith("github-"))
PINNED = re.compile(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def workflow(name: str) -> Any:
    return YAML(typ="safe").load(recipes.read(name))


def jobs(name: str) -> list[Any]:
    return list(workflow(name)["jobs"].values())


def steps(name: str) -> list[Any]:
    return [step for job in jobs(name) for step in job["steps"]]


def test_every_recipe_is_listed_and_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    there = {path.name for path in FOLDER.iterdir() if path.is_file() and path.suffix != ".py"}
    assert there == set(recipes.PLACES)
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["hostbench.recipes"]
    assert {path.name for pattern in patterns for path in FOLDER.glob(pattern)} == there
    assert main(["recipe"]) == EXIT_OK
    listed = capsys.readouterr().out
    assert all(f"{name} " in listed for name in there)
    assert main(["recipe", "crontab"]) == EXIT_OK
    assert capsys.readouterr().out == (FOLDER / "crontab").read_text()
    assert main(["recipe", "github-nigthly.yml"]) == EXIT_USAGE
    assert "did you mean 'github-nightly.yml'?" in capsys.readouterr().err
    assert main(["recipe", "crontab", "gitlab.yml"]) == EXIT_USAGE


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
    paths = [str(FOLDER / name) for name in names]
    with pytest.raises(SystemExit) as ended:
        check_jsonschema(["--builtin-schema", schema, *more, *paths])
    assert ended.value.code in (0, None)
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(recipes.read(names[0]).replace("timeout", "time_limit"))
    with pytest.raises(SystemExit) as ended:
        check_jsonschema(["--builtin-schema", schema, *more, str(wrong)])
    assert ended.value.code == 1


def test_zizmor_finds_nothing() -> None:
    line = (Path(sys.executable).with_name("zizmor"), "--offline", "--no-config", "--quiet")
    paths = [FOLDER / name for name in WORKFLOWS]
    done = subprocess.run(
        [*line, "--persona=pedantic", "--no-progress", *paths],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_gives_nothing_away(name: str) -> None:
    text = recipes.read(name)
    assert text.count("uses:") == len(PINNED.findall(text)) > 0
    whole = workflow(name)
    (job,) = whole["jobs"].values()
    assert whole["permissions"] == {} and (whole.get("concurrency") or job["concurrency"])["group"]
    for step in steps(name):
        assert "${{" not in step.get("run", ""), "what GitHub fills in may be anybody's text"
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
    assert text.count("git+https://PLACE-OF-HOSTBENCH") == 1


def test_only_what_needs_a_secret_has_it() -> None:
    """Measuring a pull request has none, and may write nothing, nor into the nights' results."""
    compare = recipes.read("github-compare.yml")
    assert "secrets." not in compare and "token" not in compare.replace("persist-credentials", "")
    assert [job["permissions"] for job in jobs("github-compare.yml")] == [{"contents": "read"}]
    assert [job["permissions"] for job in jobs("github-comment.yml")] == [
        {"actions": "read", "pull-requests": "write"}
    ]
    comment = recipes.read("github-comment.yml")
    assert "actions/checkout" not in comment and "head_branch" not in comment
    for name, clean in (("github-nightly.yml", False), ("github-compare.yml", None)):
        (job,) = jobs(name)
        (out,) = (step["with"] for step in job["steps"] if "checkout" in step.get("uses", ""))
        own = job["defaults"]["run"]["working-directory"]
        assert (out["path"], out.get("clean")) == (own, clean) and own in name
    given = {step["name"] for step in steps("github-nightly.yml") if "github.token" in str(step)}
    assert given == {"Bring what other nights and machines have measured", "Keep the results"}


@pytest.mark.parametrize("name", ["github-nightly.yml", "github-compare.yml"])
def test_the_limits_leave_time_for_the_budget(name: str) -> None:
    (job,) = jobs(name)
    (measuring,) = (step for step in job["steps"] if "--budget" in step.get("run", ""))
    budget = parse_seconds(measuring["run"].split("--budget ")[1].split()[0])
    assert budget + 600 <= measuring["timeout-minutes"] * 60 < job["timeout-minutes"] * 60
    assert measuring["run"].startswith("exec ")
    after = job["steps"][job["steps"].index(measuring) + 1 :]
    assert after and all(step["if"] == "${{ always() }}" for step in after)


def test_gitlabs_limits_leave_time_for_the_budget_and_the_push() -> None:
    night = workflow("gitlab.yml")["hostbench-nightly"]
    budget = parse_seconds(str(night["script"]).split("--budget ")[1].split()[0])
    names = ("RUNNER_SCRIPT_TIMEOUT", "RUNNER_AFTER_SCRIPT_TIMEOUT")
    script, after = (parse_seconds(night["variables"][name]) for name in names)
    assert budget < script and script + after < parse_seconds(
        night["timeout"].replace(" minutes", "m")
    )


def scripts(name: str) -> list[str]:
    """What a shell is given."""
    if name in WORKFLOWS:
        return [step["run"] for step in steps(name) if "run" in step]
    if name == "gitlab.yml":
        found = workflow(name).values()
        parts = ("before_script", "script", "after_script")
        return ["\n".join(job[part]) for job in found for part in parts if part in job]
    return [recipes.read(name)]


@pytest.mark.parametrize("name", [*WORKFLOWS, "gitlab.yml", "nightly.sh"])
def test_a_shell_can_read_them(name: str) -> None:
    shell = ["sh", "-n"] if name == "nightly.sh" else ["bash", "-n"]
    every = scripts(name)
    assert every
    for script in every:
        subprocess.run(shell, input=script, text=True, check=True)
        assert "curl" not in script and "sudo" not in script


def test_the_crontab_is_one() -> None:
    (line,) = (one for one in recipes.read("crontab").splitlines() if not one.startswith("#"))
    minute, hour, *every, command = line.split(maxsplit=5)
    assert 0 <= int(minute) < 60 and 0 <= int(hour) < 24 and every == ["*"] * 3
    assert "%" not in command, "cron makes a line end of it"


def test_systemd_can_read_its_units(tmp_path: Path) -> None:
    units = [name for name in recipes.PLACES if name.startswith("hostbench-nightly.")]
    read = ConfigParser(interpolation=None)
    for name in units:
        text = recipes.read(name).replace("%h/hostbench-nightly", "/bin/true")
        (tmp_path / name).write_text(text)
        read.read_string(text)
    assert set(read.sections()) == {"Unit", "Service", "Timer", "Install"}
    limit = read["Service"]["TimeoutStartSec"]
    budget = re.search(r"--budget (\S+)", recipes.read("nightly.sh"))
    assert budget and parse_seconds(budget[1]) < parse_seconds(limit.removesuffix("in"))
    if program := shutil.which("systemd-analyze"):
        line = (program, "verify", "--man=no", *(f"./{name}" for name in units))
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.stdout + done.stderr == ""
