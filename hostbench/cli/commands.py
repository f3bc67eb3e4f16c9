"""Every command with its options. Imports click alone: the module of a command is imported when it
is asked for, and gets one frozen record of the options."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from hostbench import __version__
from hostbench.cli import options
from hostbench.cli.options import formats, several

Work = Callable[[], int]
"""A command with its options, still to be done."""

_EPILOG = """\b
completion of commands, options, families and cases, for bash (or zsh, fish):
  eval "$(_HOSTBENCH_COMPLETE=bash_source hostbench)"

\b
exit codes: 0 fine, 1 regression, 2 usage, 3 nothing measured, 4 something failed or interrupted
a case is written family.workload[axis=value,...]; `hostbench list` names them all
"""


class _InOrder(click.Group):
    """Lists its commands as they are declared, the usual ones first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    help="What each habit of feeding a GPU costs, on this machine and over time.",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="hostbench %(version)s")
def COMMANDS() -> None:
    """The program itself: it has no work of its own."""


@COMMANDS.command(help="Measure this machine, keep the run, have asv record it.")
@options.families
@options.selection
@click.option(
    "--resume", is_flag=True, help="finish this commit's partial run, as --stop-after leaves"
)
@options.stop_after
@click.option("--no-asv", is_flag=True, help="archive only; leave asv out")
@options.measuring
def run(**given: Any) -> Work:
    from hostbench.cli.run import RunOptions, execute

    return partial(execute, RunOptions(**given))


@COMMANDS.command(help="The answer of a run, in words and a table.")
@click.option("--run", metavar="RUN_ID", help="default: the newest run")
@options.machine
@formats("html", default=None)
@click.option("--html", is_flag=True, hidden=True)
@click.option(
    "-o",
    "output",
    type=options.OUTPUT,
    metavar="FILE",
    help="write to FILE, in the format of its ending unless --format is given",
)
@options.results
def report(**given: Any) -> Work:
    from hostbench.cli.report import ReportOptions, execute

    return partial(execute, ReportOptions(**given))


@COMMANDS.command(
    help="What became slower or faster from A to B. A side is a commit, branch or tag; or "
    "machine:NAME, torch:VERSION, driver:VERSION, run:ID."
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.every
@formats()
@options.only_machine
@options.results
def compare(**given: Any) -> Work:
    from hostbench.cli.compare import CompareOptions, execute

    return partial(execute, CompareOptions(**given))


@COMMANDS.command(
    help="Measure two commits, interleaved, and compare them. A and B are commits, "
    "branches or tags; B is the working tree as it is now unless given. Families: all unless given."
)
@click.argument("a", metavar="A")
@click.argument(
    "names",
    nargs=-1,
    metavar="[B] [FAMILY]...",
    shell_complete=options.complete_families,
)
@options.selection
@options.stop_after
@options.measuring
@options.every
@formats()
def ab(**given: Any) -> Work:
    from hostbench.cli.ab import AbOptions, execute

    return partial(execute, AbOptions(**given))


@COMMANDS.command(
    help="Every step in every series, and since when. SERIES selects series, as "
    "'transfer.host_to_device[memory=pinned]@box', or a machine's own events: machine:NAME."
)
@click.argument("series", nargs=-1, metavar="[SERIES]...", shell_complete=options.complete_cases)
@options.only_machine
@click.option(
    "--axis",
    type=click.Choice(("commit", "run-time")),
    default="commit",
    help="put runs in the order of their commits' dates, or of their own time (commit)",
)
@click.option(
    "--since",
    metavar="COMMIT|DATE",
    help="only what began then or later makes exit code 1 (default: the machine's newest 50 runs)",
)
@click.option("--all", is_flag=True, help="list what is faster, recovered or temporary, too")
@formats("jsonl", default=None)
@click.option(
    "--input",
    type=options.PATH,
    metavar="FILE",
    help="series as JSON lines with id, values (seconds, null where missing) and group (the "
    "machine) in place of what is stored; - is standard input",
)
@options.results
def changes(**given: Any) -> Work:
    from hostbench.cli.changes import ChangesOptions, execute

    return partial(execute, ChangesOptions(**given))


@COMMANDS.command(help=f"Which commit made a series slower. SERIES is {options.SERIES}.")
@click.argument("series", metavar="SERIES", shell_complete=options.complete_cases)
@click.option("--good", metavar="REV", help="last good commit (default: from history)")
@click.option("--bad", metavar="REV", help="first bad commit (default: from history)")
@click.option("--run", is_flag=True, help="do the steps, in a clone, and name the commit")
@click.option(
    "--check",
    is_flag=True,
    help="for `git bisect run`: measure HEAD against --good; exit 0 good, 1 bad, 125 skip",
)
@click.option(
    "--threshold",
    type=float,
    metavar="EFFECT",
    help="change from which a commit is bad, as 0.05 or -0.05 (default: half the step)",
)
@options.measuring
def bisect(**given: Any) -> Work:
    from hostbench.cli.bisect import execute
    from hostbench.cli.bisect_run import BisectOptions

    return partial(execute, BisectOptions(**given))


@COMMANDS.group(
    help="What people say of events: list, set, clear. Without an action: list.",
    invoke_without_command=True,
)
@formats()
@options.results
@click.pass_context
def triage(context: click.Context, /, **given: Any) -> Work | None:
    context.obj = given
    return None if context.invoked_subcommand else _triage(context, "list", {})


def _triage(context: click.Context, action: Any, given: dict[str, Any]) -> Work:
    """Options before the action count where none is given behind it."""
    from hostbench.cli.triage import TriageOptions, execute

    own = {name: value for name, value in given.items() if value is not None}
    return partial(execute, TriageOptions(action=action, **{**context.obj, **own}))


@triage.command("list", help="Every entry.")
@formats(default=None)
@options.results
@click.pass_context
def triage_list(context: click.Context, /, **given: Any) -> Work:
    return _triage(context, "list", given)


event = several(
    click.argument("series", metavar="SERIES", shell_complete=options.complete_cases),
    click.argument("since", metavar="SINCE"),
)
direction = click.option(
    "--direction", type=click.Choice(("slower", "faster")), default="slower", show_default=True
)
_EVENT = f"SERIES is {options.SERIES}, or machine:NAME; SINCE the first bad commit, or a run id."


@triage.command(
    "set",
    help=f"Say what an event is. {_EVENT} STATE is accepted, expected, noise or investigating.",
)
@event
@click.argument("state", metavar="STATE")
@click.option("--owner", metavar="NAME")
@click.option("--note", metavar="TEXT")
@click.option("--until", metavar="DATE", help="last day on which it counts")
@direction
@options.results
@click.pass_context
def triage_set(context: click.Context, /, **given: Any) -> Work:
    return _triage(context, "set", given)


@triage.command("clear", help=f"Take that back. {_EVENT}")
@event
@direction
@options.results
@click.pass_context
def triage_clear(context: click.Context, /, **given: Any) -> Work:
    return _triage(context, "clear", given)


@COMMANDS.command(help="What this machine is, what will run, what looks wrong.")
@options.machine
@formats()
def doctor(**given: Any) -> Work:
    from hostbench.cli.doctor import DoctorOptions, execute

    return partial(execute, DoctorOptions(**given))


@COMMANDS.command("list", help="Name the workloads and their cases.")
@options.families
@click.option("--cases", is_flag=True, help="every case, one a line")
@formats()
def list_(**given: Any) -> Work:
    from hostbench.cli.list import ListOptions, execute

    return partial(execute, ListOptions(**given))


@COMMANDS.command(
    "import",
    help="Bring in other results. PATH is a results tree of asv or hostbench (or a checkout with "
    "one), or the file that `nvbandwidth -j` printed.",
)
@click.argument("file", type=options.PATH, metavar="PATH")
@click.option(
    "--buffer-size",
    metavar="SIZE",
    help="what nvbandwidth was given with -b, as in 512MiB; its file does not tell",
)
@options.machine
@formats()
@options.results
def import_(**given: Any) -> Work:
    from hostbench.cli.import_results import ImportOptions, execute

    return partial(execute, ImportOptions(**given))


@COMMANDS.command(help="Make old archives smaller; nothing judged is lost.")
@click.option(
    "--older-than", type=float, default=90, metavar="DAYS", help="leave younger runs (90)"
)
@click.option(
    "--keep", type=int, default=20, metavar="N", help="leave each machine's newest N runs (20)"
)
@click.option(
    "--median",
    is_flag=True,
    help="of each launch's samples keep the median alone, not five quantiles",
)
@click.option("--dry-run", is_flag=True, help="only say how much it would save")
@formats()
@options.results
def compact(**given: Any) -> Work:
    from hostbench.cli.compact import CompactOptions, execute

    return partial(execute, CompactOptions(**given))


@COMMANDS.command(help="Append what the table at a URL lacks of results/.")
@click.argument("url", metavar="URL")
@options.results
def publish(**given: Any) -> Work:
    from hostbench.cli.publish import PublishOptions, execute

    return partial(execute, PublishOptions(**given))


@COMMANDS.command("check-results", help="Find and explain damage in results/.")
@formats()
@options.results
def check_results(**given: Any) -> Work:
    from hostbench.cli.check_results import CheckOptions, execute

    return partial(execute, CheckOptions(**given))


@COMMANDS.command(help="Open the dashboard over all stored runs.")
@click.option("--port", type=int, default=8501, show_default=True)
@click.option("--headless", is_flag=True, help="do not open a browser")
@options.results
def dashboard(**given: Any) -> Work:
    from hostbench.cli.dashboard import DashboardOptions, execute

    return partial(execute, DashboardOptions(**given))


@COMMANDS.command("simulate-history", help="Write results whose changes are known.")
@click.option(
    "-o",
    "output",
    type=options.OUTPUT,
    metavar="DIR",
    required=True,
    help="new or empty folder: DIR/results, and DIR/truth.json with what really happened",
)
@click.option(
    "--story",
    type=options.PATH,
    metavar="FILE",
    help="TOML, see docs/simulation.md (default: a story that the seed makes up)",
)
@click.option("--machines", type=int, metavar="N", help="3 unless given")
@click.option("--commits", type=int, metavar="N", help="one a day (120)")
@click.option("--series", type=int, metavar="N", help="cases of each machine (24)")
@click.option("--seed", type=int, metavar="N", help="the same, the same bytes (0)")
@click.option("--git", is_flag=True, help="make DIR a git repository that has the commits")
def simulate_history(**given: Any) -> Work:
    from hostbench.cli.simulate_history import HistoryOptions, execute

    return partial(execute, HistoryOptions(**given))


@COMMANDS.command("sync-benchmarks", help="Write benchmarks/*.py from the registry.")
@click.option("--check", is_flag=True, help="write nothing; exit 2 if any differs")
def sync_benchmarks(**given: Any) -> Work:
    from hostbench.cli.sync import SyncOptions, execute

    return partial(execute, SyncOptions(**given))
