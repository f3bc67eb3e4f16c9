"""Arguments that commands share, and those of `ab`, `bisect` and `triage`."""

import argparse
from pathlib import Path

SERIES = "a series: family.workload[axis=value,...] or that with @machine"


def results(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    parser.add_argument(
        "--results",
        type=Path,
        default=default,
        metavar="DIR",
        help="results folder (default: the one asv.conf.json names, else ./results)",
    )


def machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="machine name (default: HOSTBENCH_MACHINE, else built from the hardware)",
    )


def output(parser: argparse.ArgumentParser, *choices: str, default: str | None = None) -> None:
    parser.add_argument("--format", choices=choices, default=default or choices[0])


def selection(parser: argparse.ArgumentParser) -> None:
    """Which cases are measured."""
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="CASE",
        help="only cases that match, e.g. 'transfer.host_to_device[memory=pinned,nbytes=16MiB]'",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few cases, 3 launches: an answer in two minutes, never judged nor given to asv",
    )


def measuring(parser: argparse.ArgumentParser) -> None:
    """How they are measured, and where it is kept."""
    parser.add_argument("--device", choices=("cuda", "cpu", "simulated"), help="default: cuda "
                        "where NVIDIA hardware is visible, else cpu")  # fmt: skip
    parser.add_argument("--launches", type=int, metavar="N", help="fresh processes per family")
    parser.add_argument("--deadline", type=float, metavar="S", help="seconds per case (60)")
    parser.add_argument("--seed", type=int, metavar="N", help="of the random order of cases")
    parser.add_argument("--identify", action="store_true", help="store host name, serial numbers, "
                        "bus ids and UUIDs too")  # fmt: skip
    machine(parser)
    results(parser)


def ab(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(resume=False)
    parser.add_argument("a", metavar="A", help="a commit, branch or tag")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="B|FAMILY",
        help="another one (default: the working tree as it is now), then families (default: all)",
    )
    selection(parser)
    parser.add_argument("--stop-after", metavar="TIME", help="stop after so long (90s, 9m, 1.5h)")
    measuring(parser)
    parser.add_argument(
        "--all", action="store_true", help="show what is the same or undecided, too"
    )
    output(parser, "text", "md", "json")


def bisect(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(resume=False)
    parser.add_argument("series", metavar="SERIES", help=SERIES)
    parser.add_argument("--good", metavar="REV", help="last good commit (default: from history)")
    parser.add_argument("--bad", metavar="REV", help="first bad commit (default: from history)")
    parser.add_argument(
        "--run",
        action="store_true",
        help="do the steps, in a clone, and name the commit",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="for `git bisect run`: measure HEAD against --good; exit 0 good, 1 bad, 125 skip",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="EFFECT",
        help="change from which a commit is bad, as 0.05 or -0.05 (default: half the step)",
    )
    measuring(parser)


def triage(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    parser.set_defaults(action="list")
    output(parser, "text", "json")
    results(parser)
    listed = actions.add_parser("list", help="every entry (the default)", allow_abbrev=False)
    output(listed, "text", "json", default=argparse.SUPPRESS)
    results(listed, argparse.SUPPRESS)
    for name, help in (("set", "say what an event is"), ("clear", "take that back")):
        action = actions.add_parser(name, help=help, allow_abbrev=False)
        action.add_argument("series", metavar="SERIES", help=f"{SERIES}, or machine:NAME")
        action.add_argument("since", metavar="SINCE", help="first bad commit, or run id")
        if name == "set":
            action.add_argument(
                "state", metavar="STATE", help="accepted, expected, noise or investigating"
            )
            action.add_argument("--owner", metavar="NAME")
            action.add_argument("--note", metavar="TEXT")
            action.add_argument("--until", metavar="DATE", help="last day on which it counts")
        action.add_argument("--direction", choices=("slower", "faster"), default="slower")
        results(action, argparse.SUPPRESS)
