"""`hostbench compare A B`: what became slower or faster from A to B, and how sure that is."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from hostbench.cli.places import results_folder
from hostbench.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION, NothingMeasured
from hostbench.judge.compare import compare
from hostbench.report.comparison import as_json, text
from hostbench.report.sides import chosen, series
from hostbench.runner.repo import commit_of
from hostbench.store import frame


def execute(args: Namespace) -> int:
    """Exit code 1 where a series got slower, 3 where nothing could be decided, else 0."""
    folder = results_folder(args)
    if not folder.is_dir():
        raise NothingMeasured(f"there is no results folder {folder}; `hostbench run` makes one")
    tree = frame.read(folder)
    for warning in tree.warnings:
        print(f"hostbench: {warning}", file=sys.stderr)
    rows = tree.frame
    if args.machine is not None:
        rows = rows[rows["machine"] == args.machine]
    first, second = (
        chosen(rows, name, lambda name: commit_of(Path.cwd(), name)) for name in (args.a, args.b)
    )
    both, notes = series(first, second)
    found = compare(both)
    names = (args.a, args.b)
    if args.format == "json":
        print(json.dumps(as_json(found, names, notes), indent=2))
    else:
        print(text(found, names, notes, markdown=args.format == "md", every=args.all))
    verdicts = {one.verdict for one in found.values()}
    if "slower" in verdicts:
        return EXIT_REGRESSION
    return EXIT_OK if verdicts - {"undecided"} else EXIT_NOTHING_MEASURED
