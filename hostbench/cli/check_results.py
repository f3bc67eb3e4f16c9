"""`hostbench check-results`: find and explain damage below a results folder."""

import json
from argparse import Namespace

from hostbench.cli.places import results_folder
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, NothingMeasured
from hostbench.core.units import one_line
from hostbench.store import check


def execute(args: Namespace) -> int:
    """Print each finding with its remedy; change nothing. Exit code 4 where there is one."""
    folder = results_folder(args)
    if not folder.is_dir():
        raise NothingMeasured(f"there is no results folder {folder}; `hostbench run` makes one")
    checked = check.check(folder)
    if args.format == "json":
        print(json.dumps(check.as_json(checked), indent=2))
    else:
        for finding in checked.findings:
            print(one_line(str(finding)))
        found = len(checked.findings)
        print(
            f"{checked.num_files} files, {checked.num_runs} runs: "
            + (f"{found} to look at" if found else "all whole")
        )
    return EXIT_FAILED if checked.findings else EXIT_OK
