"""Which results folder a command works on."""

from argparse import Namespace
from pathlib import Path

from hostbench.runner.places import asv_results, project_root


def results_folder(args: Namespace) -> Path:
    """`--results`, else the one that the nearest asv.conf.json names, else ./results."""
    if args.results is not None:
        return Path(args.results).absolute()
    return asv_results(project_root(Path.cwd()) or Path.cwd())
