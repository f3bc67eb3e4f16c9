"""Every command with its options. Imports click alone: the module of a command is imported when it
is asked for, and its function gets the options by their names."""

import math
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from hostbench import __version__
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.units import parse_seconds
from hostbench.store import TRIAGE_STATES

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_EPILOG = """\b
exit codes: 0 fine, 1 regression, 2 usage, 3 nothing measured or too little to judge, 4 something
failed or was interrupted
a case is written family.workload[axis=value,...]; `hostbench list` names them all
"""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


# ---- types --------------------------------------------------------------------------------------


class _Time(click.ParamType[float]):
    """A time above zero, with its unit or in seconds."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if value == math.inf:  # where none is given
            return math.inf
        with suppress(ValueError):
            if (seconds := parse_seconds(str(value))) > 0:
                return seconds
        self.fail(f"{value!r} is not a time above zero: write 90, 90s, 9m or 1.5h.", param, ctx)


_PATH, _TIME = click.Path(path_type=Path), _Time()
_FILE = click.Path(path_type=Path, dir_okay=False)


# ---- options ------------------------------------------------------------------------------------


def several(*options: Decorator) -> Decorator:
    """These options, in the order in which the help lists them."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _option(name: str, metavar: str, help: str, type: Any = None, **settings: Any) -> Decorator:
    return click.option(*name.split(), metavar=metavar, help=help, type=type, **settings)


def _flag(name: str, help: str) -> Decorator:
    return click.option(name, help=help, is_flag=True)


def _formats(more: str = "") -> Decorator:
    """`--format`: the same choices everywhere, and what one command has beside them."""
    choices = click.Choice(f"text md json csv {more}".split())
    return click.option("--format", type=choices, help="[default: text]", default="text")


def _launches(fewest: int) -> Decorator:
    return _option("--launches", "N", "fresh processes per family (12)", click.IntRange(fewest))


FAMILIES = click.argument("families", nargs=-1, metavar="[FAMILY]...")
_CASES = _option("--case", "CASE", "only these, as 'transfer[memory=pinned]'", multiple=True)
_QUICK = _flag("--quick", "a few cases: an answer in two or three minutes, which is never judged")
SELECTION = several(_CASES, _QUICK)
_BUDGET = _option("--budget", "TIME", "end in this time (90s, 9m, 1.5h)", _TIME, default=math.inf)
_DEVICES = click.Choice(("cuda", "cpu", "simulated"))
DEVICE = click.option("--device", type=_DEVICES, help="default: cuda where there is a GPU")
LAUNCHES = _launches(1)
DEADLINE = _option("--deadline", "TIME", "a case that takes longer fails (60s)", _TIME)
_FOLDER = "results folder (default: the one asv.conf.json names, else ./results)"
RESULTS = _option("--results", "DIR", _FOLDER)
_READ_RESULTS = _option("--results", "DIR", f"{_FOLDER}, or the URL of a table, as s3://...")
_MACHINE = _option("--machine", "NAME", "default: HOSTBENCH_MACHINE, else from the hardware")
_ONLY_MACHINE = _option("--machine", "NAME", "only this machine's runs")
_ALL = _flag("--all", "list also what is the same or undecided")
_MEASURING = several(DEVICE, LAUNCHES, DEADLINE, _MACHINE, RESULTS)
_TWO_SIDES = several(DEVICE, _launches(MIN_LAUNCHES), DEADLINE, _MACHINE, RESULTS)
"""A verdict needs so many launches of each side."""


# ---- the commands -------------------------------------------------------------------------------


class _InOrder(click.Group):
    """Lists its commands as they are declared, the usual ones first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    help="What each habit of feeding a GPU costs, on this machine and over time.",
    epilog=_EPILOG,
    context_settings=CONTEXT,
)
@click.version_option(__version__, message="hostbench %(version)s")
def COMMANDS() -> None:
    """The program itself: it has no work of its own."""


def _command(name: str, help: str, *params: Decorator, **settings: Any) -> None:
    """A command: `execute` of its module takes its options, and returns the exit code."""

    def start(**given: Any) -> int:
        code: int = import_module(f"hostbench.cli.{name}").execute(**given)
        return code

    COMMANDS.command(name, help=help, **settings)(several(*params)(start))


_command(
    "run",
    "Measure this machine and store the run. A run that counts is also written to asv's file of "
    "the commit.",
    FAMILIES,
    SELECTION,
    _BUDGET,
    _MEASURING,
)
_command(
    "nightly",
    "Measure unattended, and say what moved. The run is compared with the nights before, what "
    "moved is measured again, and a summary names the cause.",
    FAMILIES,
    _CASES,
    _BUDGET,
    _option("--summary", "FILE", "write the summary, in Markdown", _FILE),
    _formats("html"),
    _MEASURING,
)
_command(
    "report",
    "Print all answers and cases of a run. Families: all by default.",
    FAMILIES,
    _option("--run", "RUN_ID", "default: the newest run"),
    _MACHINE,
    _formats("html"),
    _flag("--tracebacks", "print why cases failed, instead"),
    _READ_RESULTS,
)
_command(
    "compare",
    "Compare two commits, machines or runs. A side is a commit, branch or tag, machine:NAME or "
    "run:ID. A commit or a run alone is compared with the level of the runs before it.",
    click.argument("a", metavar="A"),
    click.argument("b", metavar="[B]", required=False),
    _ALL,
    _formats(),
    _ONLY_MACHINE,
    _READ_RESULTS,
)
_command(
    "ab",
    "Measure two commits, interleaved, and compare them. A and B are commits, branches or tags; "
    "B is by default the working tree as it is now. Families: by default the project's own, or "
    "all.",
    click.argument("a", metavar="A"),
    click.argument("names", nargs=-1, metavar="[B] [FAMILY]..."),
    SELECTION,
    _BUDGET,
    _option("--comment", "FILE", "write the answer as Markdown for a pull request", _FILE),
    _flag("--bisect", "for `git bisect run`: exit 0 good, 1 bad, 125 cannot tell"),
    _option("--threshold", "EFFECT", "from which B is bad (0.05)", float, default=0.05),
    _TWO_SIDES,
    _ALL,
    _formats(),
)
_command(
    "bisect",
    "Find the commit that made a series slower. In a clone, `git bisect run` runs `hostbench ab`. "
    "SERIES is a series: family.workload[axis=value,...] or that with @machine.",
    click.argument("series", metavar="SERIES"),
    _option("--good", "REV", "a commit from before the step", required=True),
    _option("--bad", "REV", "a commit that has it", required=True),
    _TWO_SIDES,
)
_command(
    "changes",
    "List every step in every series. SERIES selects series, as "
    "'transfer.host_to_device[memory=pinned]@box'.",
    click.argument("series", nargs=-1, metavar="[SERIES]..."),
    _ONLY_MACHINE,
    _flag("--all", "list also what is faster, recovered or temporary"),
    _formats(),
    _READ_RESULTS,
)
_command(
    "triage",
    "List what is known about slower series, or note it of one. SERIES is case@machine, or "
    "machine:NAME, as `hostbench changes` prints it; SINCE the first bad commit, or a run id; "
    f"STATE {', '.join(TRIAGE_STATES)}.",
    click.argument("series", required=False, metavar="[SERIES]"),
    click.argument("since", required=False, metavar="[SINCE]"),
    click.argument("state", required=False, metavar="[STATE]", type=click.Choice(TRIAGE_STATES)),
    _option("--note", "TEXT", "why"),
    _formats(),
    RESULTS,
)
_command("doctor", "Say what this machine is and what looks wrong.", _formats())
_command(
    "idle",
    "Say why the GPU idles in a script. COMMAND, as `python train.py`, is run, and some steps are "
    "recorded by PyTorch's profiler; or --trace reads what somebody recorded.",
    click.argument("command", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED),
    _option("--trace", "FILE", "a trace, or a folder of them; repeatable", _PATH, multiple=True),
    _option("--warmup", "N", "steps left out first (5); 0: none", click.IntRange(0), default=5),
    _option("--steps", "N", "steps to record (10)", click.IntRange(1), default=10),
    _option("--seconds", "S", "record no longer than this (30)", _TIME, default=30),
    _option("--keep", "DIR", "keep the traces in DIR, for https://ui.perfetto.dev", _PATH),
    _formats(),
    context_settings={"allow_interspersed_args": False},
)
_command(
    "trace",
    "Write a trace of one case for Perfetto. It has the host's calls and what each stream did "
    "meanwhile. CASE is family.workload[axis=value,...].",
    click.argument("case", metavar="CASE"),
    _option("-o output", "FILE", "default: trace.json.gz", _FILE, default="trace.json.gz"),
    DEVICE,
    DEADLINE,
)
_command(
    "list",
    "List the workloads and their cases.",
    FAMILIES,
    _flag("--cases", "every case, one a line"),
    _formats(),
)
_command(
    "init",
    "Set up a repository to measure its own code. Writes asv.conf.json, a workload in benchmarks/, "
    "results/ and a nightly workflow; files that exist are left as they are.",
)
_command(
    "publish",
    "Append stored results that the table at URL lacks.",
    click.argument("url", metavar="URL"),
    RESULTS,
)
_command(
    "dashboard",
    "Open the dashboard over all stored runs.",
    click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True),
    _flag("--headless", "do not open a browser"),
    _READ_RESULTS,
)
