"""`hostbench compact`: make old archives smaller without losing anything that is judged."""

import math
from argparse import Namespace

from hostbench.cli.places import results_folder, warn
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, NothingMeasured, UsageError
from hostbench.core.units import format_bytes
from hostbench.store import compact


def execute(args: Namespace) -> int:
    """Thin the inner samples of old runs. Exit code 4 where an archive could not be read."""
    if not 0 <= args.older_than < math.inf:
        raise UsageError(f"--older-than {args.older_than} is no number of days: give 0 or more")
    if args.keep < 0:
        raise UsageError(f"--keep {args.keep} is negative: give 0 or more")
    folder = results_folder(args)
    if not folder.is_dir():
        raise NothingMeasured(f"there is no results folder {folder}; `hostbench run` makes one")
    said: list[str] = []
    kept = compact.MEDIAN if args.median else compact.QUANTILES
    done = list(
        compact.compact(
            folder,
            said.append,
            older_than_days=args.older_than,
            keep=args.keep,
            kept=kept,
            dry_run=args.dry_run,
        )
    )
    for text in said:
        warn(text)
    before, after = sum(one.before for one in done), sum(one.after for one in done)
    would = "would become" if args.dry_run else "became"
    print(
        f"{len(done)} archive(s) {would} smaller: {format_bytes(before)} to {format_bytes(after)}; "
        f"of each launch's samples the {kept} stay{'s' if args.median else ''}"
    )
    return EXIT_FAILED if said else EXIT_OK
