"""Every command with its options. Imports click alone: the module of a command is imported when it
is asked for, and its function gets the options by their names."""

from importlib import import_module
from typing import Any

import click

from hostbench import __version__
from hostbench.cli import options
from hostbench.cli.options import Decorator, Number, formats, several

_EPILOG = """\b
completion of commands, options and workloads, for bash (or zsh, fish):
  eval "$(_HOSTBENCH_COMPLETE=bash_source hostbench)"

\b
exit codes: 0 fine, 1 regression, 2 usage, 3 nothing measured, 4 something failed or interrupted
a case is written family.workload[axis=value,...]; `hostbench list` names them all
"""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


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


def _command(
    name: str,
    help: str,
    *params: Decorator,
    group: click.Group = COMMANDS,
    does: str = "execute",
    **settings: Any,
) -> click.Command:
    """A command; the function `does` of its module takes its options, and returns the exit code."""
    module = f"hostbench.cli.{name if group is COMMANDS else group.name}"

    def start(**given: Any) -> int:
        code: int = getattr(import_module(module), does)(**given)
        return code

    return group.command(name, help=help, **settings)(several(*params)(start))


_no_asv = click.option("--no-asv", is_flag=True, help="archive only; leave asv out")

_command(
    "run",
    "Measure this machine and keep the run. A run that counts is written to asv's file of the "
    "commit, too.",
    options.families,
    options.selection,
    options.budget("stop after so long"),
    _no_asv,
    formats(),
    options.measuring,
)
_command(
    "nightly",
    "Measure unattended, and say what moved. The run is held against the nights before, what moved "
    "is measured once more, and a summary says what it was.",
    options.families,
    options.only_cases,
    options.budget("time for all of it"),
    _no_asv,
    click.option(
        "--summary", type=options.PATH, metavar="FILE", help="write the summary, in Markdown"
    ),
    formats("html"),
    options.measuring,
)
_command(
    "report",
    "Print all answers and cases of a run. Families: all unless given.",
    options.families,
    click.option("--run", metavar="RUN_ID", help="default: the newest run"),
    options.machine,
    formats("html"),
    click.option("--tracebacks", is_flag=True, help="of the failed cases, instead"),
    click.option(
        "--nvbandwidth",
        type=options.PATH,
        metavar="FILE",
        help="add what `nvbandwidth -j > FILE` measured, beside the run's figures",
    ),
    options.results,
)
_command(
    "compare",
    "Compare two commits, machines or versions. A side is a commit, branch or tag; or "
    "machine:NAME, torch:VERSION, driver:VERSION, environment:NAME (asv's), run:ID. A commit or a "
    "run alone is compared with the level of the runs before it.",
    click.argument("a", metavar="A"),
    click.argument("b", metavar="[B]", required=False),
    options.every,
    formats(),
    options.only_machine,
    options.results,
)
_command(
    "ab",
    "Measure two commits, interleaved, and compare them. A and B are commits, branches or tags; "
    "B is the working tree as it is now unless given. Families: all unless given.",
    click.argument("a", metavar="A"),
    click.argument(
        "names", nargs=-1, metavar="[B] [FAMILY]...", shell_complete=options.complete_families
    ),
    options.selection,
    options.budget("as many launches, of as many cases, as fit into so long"),
    click.option(
        "--comment",
        metavar="FILE",
        type=options.PATH,
        help="write the answer as Markdown for a pull request",
    ),
    click.option(
        "--bisect",
        is_flag=True,
        help="for `git bisect run`, of one case: exit 0 good, 1 bad, 125 cannot tell",
    ),
    click.option(
        "--threshold",
        type=Number(-1, min_open=True),
        default=0.05,
        metavar="EFFECT",
        help="with --bisect: the change from which B is bad (0.05)",
    ),
    options.measuring,
    options.every,
    formats(),
)
_command(
    "bisect",
    "Find the commit that made a series slower. In a clone, `git bisect run` runs `hostbench ab`. "
    f"SERIES is {options.SERIES}.",
    options.one_series,
    click.option("--good", metavar="REV", help="last good commit (default: from history)"),
    click.option("--bad", metavar="REV", help="first bad commit (default: from history)"),
    options.measuring,
)
_command(
    "changes",
    "List every step in every series. SERIES selects series, as "
    "'transfer.host_to_device[memory=pinned]@box', or a machine's own events: machine:NAME.",
    click.argument(
        "series", nargs=-1, metavar="[SERIES]...", shell_complete=options.complete_cases
    ),
    options.only_machine,
    click.option(
        "--axis",
        type=click.Choice(("commit", "run-time")),
        default="commit",
        help="put runs in the order of their commits' dates, or of their own time (commit)",
    ),
    click.option(
        "--since",
        metavar="COMMIT|DATE",
        help="only what began then or later makes exit code 1 (default: the machine's newest 50 "
        "runs)",
    ),
    click.option("--all", is_flag=True, help="list what is faster, recovered or temporary, too"),
    formats(),
    options.results,
)


@COMMANDS.group(
    help="What people say of events: list, set, clear. Without an action: list.",
    invoke_without_command=True,
)
@click.pass_context
def triage(context: click.Context) -> int | None:
    return None if context.invoked_subcommand else context.invoke(_triage_list, format="text")


_EVENT = f"SERIES is {options.SERIES}, or machine:NAME; SINCE the first bad commit, or a run id."
_event = several(
    options.one_series,
    click.argument("since", metavar="SINCE"),
    click.option(
        "--direction",
        type=click.Choice(("slower", "faster")),
        default="slower",
        show_default=True,
    ),
    options.results,
)
_triage_list = _command(
    "list", "Every entry.", formats(), options.results, group=triage, does="list_entries"
)
_command(
    "set",
    f"Say what an event is. {_EVENT} STATE is accepted, expected, noise or investigating.",
    _event,
    click.argument("state", metavar="STATE"),
    click.option("--owner", metavar="NAME"),
    click.option("--note", metavar="TEXT"),
    click.option(
        "--until",
        type=click.DateTime(["%Y-%m-%d"]),
        metavar="DATE",
        help="last day on which it counts, as 2027-01-31",
    ),
    group=triage,
    does="set_entry",
)
_command("clear", f"Take that back. {_EVENT}", _event, group=triage, does="clear_entry")
_command("doctor", "Say what this machine is and what looks wrong.", formats())
_command(
    "idle",
    "Say why the GPU idles in a script. COMMAND, as `python train.py`, is run, and some steps are "
    "recorded by PyTorch's profiler; or --trace reads what somebody recorded.",
    click.argument("command", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED),
    click.option(
        "--trace",
        type=options.PATH,
        metavar="FILE",
        multiple=True,
        help="a trace, .json or .json.gz, or a folder of them; once for each rank",
    ),
    click.option(
        "--warmup",
        type=click.IntRange(0),
        default=5,
        metavar="N",
        help="steps of the optimizer that are left out first (5); 0: record from the start",
    ),
    click.option(
        "--steps", type=click.IntRange(1), default=10, metavar="N", help="steps to record (10)"
    ),
    click.option(
        "--seconds",
        type=Number(0, min_open=True),
        default=30,
        metavar="S",
        help="record no longer than that (30)",
    ),
    click.option("--stop", is_flag=True, help="end the command once all is recorded"),
    click.option(
        "--keep",
        type=options.PATH,
        metavar="DIR",
        help="keep the traces in that folder, for https://ui.perfetto.dev",
    ),
    formats(),
    context_settings={"allow_interspersed_args": False},
)
_command(
    "trace",
    "Write a trace of one case for Perfetto. It has the host's calls and what each stream did "
    "meanwhile. CASE is family.workload[axis=value,...].",
    click.argument("case", metavar="CASE", shell_complete=options.complete_cases),
    click.option(
        "-o",
        "output",
        type=options.PATH,
        metavar="FILE",
        required=True,
        help="FILE.json, or FILE.json.gz: open it in https://ui.perfetto.dev",
    ),
    options.device,
    options.deadline,
)
_command(
    "list",
    "Name the workloads and their cases.",
    options.families,
    click.option("--cases", is_flag=True, help="every case, one a line"),
    formats(),
)
_command(
    "init",
    "Set up a repository to measure its own code. Writes asv.conf.json, a workload in benchmarks/, "
    "results/ and a nightly workflow; what is there is left as it is.",
)
_command(
    "publish",
    "Append to the table at URL what it lacks.",
    click.argument("url", metavar="URL"),
    options.results,
)
_command(
    "dashboard",
    "Open the dashboard over all stored runs.",
    click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True),
    click.option("--headless", is_flag=True, help="do not open a browser"),
    options.results,
)
