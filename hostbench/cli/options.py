"""Options that commands share, and what a shell completes for them. Imports click alone."""

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from hostbench.core.units import parse_seconds

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

SERIES = "a series: family.workload[axis=value,...] or that with @machine"
PATH = click.Path(path_type=Path)


def several(*options: Decorator) -> Decorator:
    """These options, in the order in which the help lists them."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def complete_families(context: click.Context, param: click.Parameter, word: str) -> list[str]:
    from hostbench.families import names

    return [name for name in names() if name.startswith(word)]


def complete_cases(context: click.Context, param: click.Parameter, word: str) -> list[str]:
    """Families and workloads."""
    from hostbench.families import load, names

    return [name for name in (*names(), *load()) if name.startswith(word)]


def complete_machines(context: click.Context, param: click.Parameter, word: str) -> list[str]:
    """Those that have results."""
    from hostbench.cli.results import results_folder

    folders = sorted(results_folder(context.params.get("results")).glob(f"{word}*/"))
    return [path.name for path in folders if not path.name.startswith(".")]


class Number(click.FloatRange):
    """A finite number within a range."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        return number if math.isfinite(number) else self.fail(f"{value} is not finite.", param, ctx)


class _Time(click.ParamType[float]):
    """A time above zero, written with its unit, as seconds."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        with suppress(ValueError):
            if (seconds := parse_seconds(value)) > 0:
                return seconds
        self.fail(f"{value!r} is no time above zero: write 90, 90s, 9m or 1.5h.", param, ctx)


families = click.argument(
    "families", nargs=-1, metavar="[FAMILY]...", shell_complete=complete_families
)
one_series = click.argument("series", metavar="SERIES", shell_complete=complete_cases)
results = click.option(
    "--results",
    metavar="DIR",
    type=click.Path(),
    help="results folder (default: the one asv.conf.json names, else ./results); to read also the "
    "URL of a table, as s3://...",
)
machine = click.option(
    "--machine",
    metavar="NAME",
    shell_complete=complete_machines,
    help="machine name (default: HOSTBENCH_MACHINE, else built from the hardware)",
)
only_machine = click.option(
    "--machine", metavar="NAME", shell_complete=complete_machines, help="only this machine's runs"
)
every = click.option("--all", "all", is_flag=True, help="show what is the same or undecided, too")
only_cases = click.option(
    "--case",
    metavar="CASE",
    multiple=True,
    shell_complete=complete_cases,
    help="only cases that match, e.g. 'transfer.host_to_device[memory=pinned,nbytes=16MiB]'",
)
quick = click.option(
    "--quick",
    is_flag=True,
    help="a few cases; `run` in 8 launches, an answer in a minute or two, never judged nor given "
    "to asv, `ab` in 10",
)
selection = several(only_cases, quick)
"""Which cases are measured."""
device = click.option(
    "--device",
    type=click.Choice(("cuda", "cpu", "simulated")),
    help="default: cuda where NVIDIA hardware is visible, else cpu",
)
launches = click.option(
    "--launches", type=click.IntRange(1), metavar="N", help="fresh processes per family (10)"
)
deadline = click.option(
    "--deadline", type=Number(0, min_open=True), metavar="S", help="seconds per case (60)"
)
measuring = several(device, launches, deadline, machine, results)
"""How they are measured, and where it is kept."""


def budget(help: str) -> Decorator:
    """`--budget`: the time that a command may take, whatever it does with it."""
    return click.option("--budget", type=_Time(), metavar="TIME", help=f"{help} (90s, 9m, 1.5h)")


def formats(*more: str) -> Decorator:
    """`--format`: the same choices everywhere, and what one command has beside them."""
    choices = click.Choice(("text", "md", "json", "csv", *more))
    return click.option("--format", type=choices, default="text", help="[default: text]")
