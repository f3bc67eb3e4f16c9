"""The parser and the dispatch. Each command's module is imported only when it runs."""

import argparse
import importlib
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from hostbench import __version__
from hostbench.cli import options
from hostbench.cli.options import machine as _machine
from hostbench.cli.options import output as _format
from hostbench.cli.options import results as _results
from hostbench.cli.places import drop_output, show, warn
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_PIPE, HostbenchError

_EPILOG = """\
exit codes: 0 fine, 1 regression, 2 usage, 3 nothing measured, 4 something failed or interrupted
a case is written family.workload[axis=value,...]; `hostbench list` names them all
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. A known error is one line on stderr."""
    parser = make_parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return EXIT_OK
    module = importlib.import_module(f"hostbench.cli.{args.module}")
    code = _guarded(lambda: module.execute(args))
    return _guarded(lambda: show("", end="")) or code


def _guarded(command: Callable[[], int | None]) -> int:
    try:
        return int(command() or EXIT_OK)
    except HostbenchError as error:
        warn(str(error))
        return error.exit_code
    except BrokenPipeError:
        drop_output()
        return EXIT_PIPE
    except KeyboardInterrupt:
        warn("interrupted")
        return EXIT_FAILED
    except Exception:  # Python's own exit code, 1, would say that something regressed
        traceback.print_exc()
        return EXIT_FAILED


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hostbench",
        description="What each habit of feeding a GPU costs, on this machine and over time.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hostbench {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _run(_command(commands, "run", "measure this machine, keep the run, have asv record it"))
    _report(_command(commands, "report", "the answer of a run, in words and a table"))
    _compare(_command(commands, "compare", "what became slower or faster between two sides"))
    options.ab(_command(commands, "ab", "measure two commits in turns, and compare them"))
    _changes(_command(commands, "changes", "every step in every series, and since when"))
    options.bisect(_command(commands, "bisect", "which commit made a series slower"))
    options.triage(_command(commands, "triage", "what people say of events: list, set, clear"))
    _doctor(_command(commands, "doctor", "what this machine is, what will run, what looks wrong"))
    _list(_command(commands, "list", "name the workloads and their cases"))
    _import(_command(commands, "import", "bring in other results", "import_results"))
    _compact(_command(commands, "compact", "make old archives smaller; nothing judged is lost"))
    check = _command(commands, "check-results", "find and explain damage", "check_results")
    _format(check, "text", "json")
    _results(check)
    _dashboard(_command(commands, "dashboard", "open the dashboard over all stored runs"))
    _simulate_history(
        _command(
            commands,
            "simulate-history",
            "write results whose changes are known",
            "simulate_history",
        )
    )
    _command(
        commands, "sync-benchmarks", "write benchmarks/*.py from the registry", module="sync"
    ).add_argument("--check", action="store_true", help="write nothing; exit 2 if any differs")
    return parser


_Commands = argparse._SubParsersAction  # the type of add_subparsers(), which argparse keeps private


def _command(
    commands: "_Commands[argparse.ArgumentParser]", name: str, help: str, module: str | None = None
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=help, description=help[0].upper() + help[1:] + ".", allow_abbrev=False
    )
    parser.set_defaults(module=module or name)
    return parser


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="default: every family")
    options.selection(parser)
    parser.add_argument("--resume", action="store_true", help="finish this commit's partial run")
    parser.add_argument("--stop-after", metavar="TIME", help="stop after so long (90s, 9m, 1.5h); "
                        "--resume goes on from there")  # fmt: skip
    parser.add_argument("--no-asv", action="store_true", help="archive only; leave asv out")
    options.measuring(parser)


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", metavar="RUN_ID", help="default: the newest run")
    _machine(parser)
    _format(parser, "text", "md", "json")
    parser.add_argument("--html", action="store_true", help="write one HTML file; needs -o")
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="FILE", help="write to FILE instead of the terminal"
    )
    _results(parser)


def _compare(parser: argparse.ArgumentParser) -> None:
    for side in ("a", "b"):
        parser.add_argument(side, metavar=side.upper(), help="a commit, branch or tag; or "
                            "machine:NAME, torch:VERSION, driver:VERSION, run:ID")  # fmt: skip
    parser.add_argument(
        "--all", action="store_true", help="show what is the same or undecided, too"
    )
    parser.add_argument("--format", choices=("text", "md", "json"), default="text")
    parser.add_argument("--machine", metavar="NAME", help="only this machine's runs")
    _results(parser)


def _changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("series", nargs="*", metavar="SERIES", help="only series that match, e.g. "
                        "'transfer.host_to_device[memory=pinned]@box', or a machine's own events: "
                        "machine:NAME")  # fmt: skip
    parser.add_argument("--machine", metavar="NAME", help="only this machine's series")
    parser.add_argument(
        "--axis",
        choices=("commit", "run-time"),
        default="commit",
        help="put runs in the order of their commits' dates, or of their own time (commit)",
    )
    parser.add_argument("--since", metavar="COMMIT|DATE", help="only what began then or later "
                        "makes exit code 1 (default: the machine's newest 50 runs)")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="list what is faster, recovered or "
                        "temporary, too")  # fmt: skip
    parser.add_argument("--format", choices=("text", "md", "json", "jsonl"), help="default: text")
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="series as JSON lines with id, values (seconds, null where missing) and group (the "
        "machine) in place of what is stored; - is standard input",
    )
    _results(parser)


def _doctor(parser: argparse.ArgumentParser) -> None:
    _machine(parser)
    _format(parser, "text", "json")


def _list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--cases", action="store_true", help="every case, one a line")
    _format(parser, "text", "json")


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="PATH",
        help="a results tree of asv or hostbench (or a checkout with one), or the file that "
        "`nvbandwidth -j` printed",
    )
    parser.add_argument(
        "--buffer-size",
        metavar="SIZE",
        help="what nvbandwidth was given with -b, as in 512MiB; its file does not tell",
    )
    _machine(parser)
    _results(parser)


def _compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than", type=float, default=90, metavar="DAYS", help="leave younger runs (90)"
    )
    parser.add_argument(
        "--keep", type=int, default=20, metavar="N", help="leave each machine's newest N runs (20)"
    )
    parser.add_argument(
        "--median",
        action="store_true",
        help="of each launch's samples keep the median alone, not five quantiles",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say how much it would save")
    _results(parser)


def _simulate_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="DIR",
        required=True,
        help="new or empty folder: DIR/results, and DIR/truth.json with what really happened",
    )
    parser.add_argument("--story", type=Path, metavar="FILE", help="TOML, see docs/simulation.md "
                        "(default: a story that the seed makes up)")  # fmt: skip
    parser.add_argument("--machines", type=int, metavar="N", help="3 unless given")
    parser.add_argument("--commits", type=int, metavar="N", help="one a day (120)")
    parser.add_argument("--series", type=int, metavar="N", help="cases of each machine (24)")
    parser.add_argument("--seed", type=int, metavar="N", help="the same, the same bytes (0)")
    parser.add_argument("--git", action="store_true", help="make DIR a git repository that has the "
                        "commits")  # fmt: skip


def _dashboard(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--headless", action="store_true", help="do not open a browser")
    _results(parser)
