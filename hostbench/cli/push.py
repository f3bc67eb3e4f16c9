"""`hostbench push`: what a results folder has and a results branch lacks."""

from dataclasses import dataclass
from pathlib import Path

from hostbench.cli.output import show, warn
from hostbench.cli.results import stored_results
from hostbench.core.errors import EXIT_FAILED, EXIT_OK
from hostbench.core.units import number_of
from hostbench.vcs import remote_branch, results_branch


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    branch: str
    message: str | None
    results: str | None


def execute(options: PushOptions) -> int:
    """Exit code 4 where something of the folder was left out."""
    here = Path.cwd()
    remote, branch = remote_branch.split_name(here, options.branch)
    folder = stored_results(options.results)
    message = options.message or "Results, by hostbench push"
    done = results_branch.push(here, folder, remote, branch, message)
    for text in done.left:
        warn(text)
    if done.files:
        num = number_of(len(done.files), "file")
        show(f"{options.branch} at {str(done.commit)[:8]}: {num} pushed")
    else:
        show(f"{options.branch} has all of it: nothing to push")
    return EXIT_FAILED if done.left else EXIT_OK
