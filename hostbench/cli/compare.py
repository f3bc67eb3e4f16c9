"""`hostbench compare A B`: what became slower or faster from A to B, and how sure that is."""

import json
from argparse import Namespace
from pathlib import Path

from hostbench.cli.places import results_folder, show, warn
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_REGRESSION,
    NothingMeasured,
)
from hostbench.judge.compare import compare
from hostbench.report.chosen import chosen
from hostbench.report.comparison import as_json, text
from hostbench.report.sides import both
from hostbench.store.history import History
from hostbench.vcs.repo import commit_of


def execute(args: Namespace) -> int:
    """Exit code 4 where a series that has a number at A failed at B, 1 where one got slower, 3
    where nothing could be decided, else 0."""
    folder = results_folder(args)
    if not folder.is_dir():
        raise NothingMeasured(f"there is no results folder {folder}; `hostbench run` makes one")
    history = History(folder)
    for warning in history.warnings:
        warn(warning)
    runs = history.sides()
    if args.machine is not None:
        runs = runs[runs["machine"] == args.machine]
    first, second = (
        chosen(runs, name, lambda name: commit_of(Path.cwd(), name)) for name in (args.a, args.b)
    )
    sides = both(first, second, history)
    found = compare(sides.series, sides.in_turns, sides.confounded)
    names = (args.a, args.b)
    if args.format == "json":
        show(json.dumps(as_json(found, sides, names), indent=2))
    else:
        show(text(found, sides, names, markdown=args.format == "md", every=args.all))
    if sides.broke:
        return EXIT_FAILED
    verdicts = {one.verdict for one in found.values()}
    if "slower" in verdicts:
        return EXIT_REGRESSION
    return EXIT_OK if verdicts - {"undecided"} else EXIT_NOTHING_MEASURED
