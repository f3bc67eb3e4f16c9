"""Arguments that commands share, and those of `triage`."""

import argparse
from pathlib import Path

SERIES = "a series: family.workload[axis=value,...] or that with @machine"


def results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="results folder (default: the one asv.conf.json names, else ./results)",
    )


def machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="machine name (default: HOSTBENCH_MACHINE, else built from the hardware)",
    )


def output(parser: argparse.ArgumentParser, *choices: str) -> None:
    parser.add_argument("--format", choices=choices, default=choices[0])


def triage(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    parser.set_defaults(action="list", format="text", results=None)
    listed = actions.add_parser("list", help="every entry (the default)", allow_abbrev=False)
    output(listed, "text", "json")
    results(listed)
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
        results(action)
