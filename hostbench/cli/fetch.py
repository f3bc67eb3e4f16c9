"""`hostbench fetch`: what a results branch has and a results folder lacks."""

from dataclasses import dataclass
from pathlib import Path

from hostbench.cli.output import show, warn
from hostbench.cli.results import check_writable, results_folder
from hostbench.core.errors import EXIT_FAILED, EXIT_OK
from hostbench.core.units import number_of
from hostbench.vcs import remote_branch, results_branch


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    branch: str
    results: str | None


def execute(options: FetchOptions) -> int:
    """Exit code 4 where something of the branch was left out."""
    here = Path.cwd()
    remote, branch = remote_branch.split_name(here, options.branch)
    folder = results_folder(options.results)
    check_writable(folder)
    done = results_branch.fetch(here, folder, remote, branch)
    for text in done.left:
        warn(text)
    if done.commit is None:
        show(f"{options.branch} is not there yet: `hostbench push {options.branch}` makes it")
    else:
        show(f"{options.branch} at {done.commit[:8]}: {number_of(len(done.files), 'file')} brought")
    return EXIT_FAILED if done.left else EXIT_OK
