"""Options that commands share, and what a shell completes for them. Imports click alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FORMATS = ("text", "md", "json", "csv")
SERIES = "a series: family.workload[axis=value,...] or that with @machine"
PATH = click.Path(path_type=Path)

results = click.option(
    "--results",
    metavar="DIR",
    type=click.Path(),
    help="results folder (default: the one asv.conf.json names, else ./results)",
)
machine = click.option(
    "--machine",
    metavar="NAME",
    help="machine name (default: HOSTBENCH_MACHINE, else built from the hardware)",
)
only_machine = click.option("--machine", metavar="NAME", help="only this machine's runs")
every = click.option("--all", "all", is_flag=True, help="show what is the same or undecided, too")


class _Output(click.Path):
    """A file to write; `-o=FILE` is `-o FILE`."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return super().convert(str(value).removeprefix("="), param, ctx)


OUTPUT = _Output(path_type=Path)


def formats(*more: str, default: str | None = "text") -> Decorator:
    """`--format`: the same choices everywhere, and what one command has beside them."""
    return click.option(
        "--format",
        type=click.Choice((*FORMATS, *more)),
        default=default,
        help="[default: text]",
    )


def several(*options: Decorator) -> Decorator:
    """These options, in the order in which the help lists them."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


selection = several(
    click.option(
        "--case",
        metavar="CASE",
        multiple=True,
        help="only cases that match, e.g. 'transfer.host_to_device[memory=pinned,nbytes=16MiB]'",
    ),
    click.option(
        "--quick",
        is_flag=True,
        help="a few cases, 3 launches: an answer in two minutes, never judged nor given to asv",
    ),
)
"""Which cases are measured."""

stop_after = click.option(
    "--stop-after",
    metavar="TIME",
    help="stop after so long (90s, 9m, 1.5h)",
)

measuring = several(
    click.option(
        "--device",
        type=click.Choice(("cuda", "cpu", "simulated")),
        help="default: cuda where NVIDIA hardware is visible, else cpu",
    ),
    click.option("--launches", type=int, metavar="N", help="fresh processes per family"),
    click.option("--deadline", type=float, metavar="S", help="seconds per case (60)"),
    click.option("--seed", type=int, metavar="N", help="of the random order of cases"),
    click.option(
        "--identify", is_flag=True, help="store host name, serial numbers, bus ids and UUIDs too"
    ),
    machine,
    results,
)
"""How they are measured, and where it is kept."""
