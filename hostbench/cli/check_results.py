"""`hostbench check-results`: find and explain damage below a results folder."""

import json
from dataclasses import dataclass

from hostbench.cli.results import stored_results
from hostbench.core.errors import EXIT_FAILED, EXIT_OK
from hostbench.core.units import one_line
from hostbench.store import check


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    format: str = "text"
    results: str | None = None


def execute(options: CheckOptions) -> int:
    """Print each finding with its remedy; change nothing. Exit code 4 where there is one."""
    checked = check.check(stored_results(options.results))
    if options.format == "json":
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
