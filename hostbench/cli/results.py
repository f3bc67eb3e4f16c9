"""What `--results` names. To find the folder takes no pandas, which takes half a second."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hostbench.cli.output import warn
from hostbench.core.asv_config import CONFIG, asv_results, project_root
from hostbench.core.case import did_you_mean
from hostbench.core.errors import NothingMeasured, UsageError
from hostbench.core.files import is_url

if TYPE_CHECKING:
    from hostbench.store.results import Results

MANY = 100
"""Files that take seconds to be read."""


def results_folder(named: str | None) -> Path:
    """`--results`, or the results of the project whose folder that is, as its asv.conf.json names
    them; else those that the nearest asv.conf.json names, else ./results.

    It need not be there yet. Raises UsageError for what is no folder and cannot become one.
    """
    if named is not None:
        if is_url(named):
            raise UsageError(f"{named} is a table; this command needs a folder of files")
        folder = _checked(Path(named).absolute())
        return _checked(asv_results(folder)) if (folder / CONFIG).is_file() else folder
    return _checked(asv_results(project_root(Path.cwd()) or Path.cwd()))


def stored_results(named: str | None) -> Path:
    """The same, and it is there; what was killed or measured by asv is archived first. Raises
    NothingMeasured where it is not."""
    from hostbench.store.archive import READERS_WAIT_S, adopt_orphans

    folder = results_folder(named)
    if not folder.is_dir():
        raise NothingMeasured(f"there is no results folder {folder}; `hostbench run` makes one")
    adopt_orphans(folder, warn, untouched_s=READERS_WAIT_S)
    return folder


def open_history(named: str | None, machine: str | None = None) -> "Results":
    """What is stored there, in a folder or in a table at a URL; what cannot be read is a warning.
    Raises NothingMeasured where it is not there, or has nothing of the machine."""
    from hostbench.store.index import folder_of
    from hostbench.store.results import Results

    if named and is_url(named):
        history = Results(named)
    else:
        folder = stored_results(named)
        if not folder_of(folder).exists():
            num = sum(1 for _ in folder.glob("*/*.json")) + sum(1 for _ in folder.glob("*/runs/*"))
            if num > MANY:
                warn(f"reading {num} files for the first time")
        history = Results(folder)
    for warning in history.warnings:
        warn(warning)
    check_machine(machine, history.machines())
    return history


def check_machine(name: str | None, stored: Sequence[str]) -> None:
    """Raises NothingMeasured for a machine of which nothing is stored."""
    if name is not None and name not in stored:
        raise NothingMeasured(
            f"no run of machine {name!r} is stored{did_you_mean(name, stored)}; there are: "
            f"{', '.join(stored) or 'none'} (--machine NAME)"
        )


def _checked(path: Path) -> Path:
    try:
        is_other = not path.is_dir() and (path.exists() or path.is_symlink())
    except OSError:  # a name that is too long, a folder that is not ours to look into
        is_other = True
    if is_other:
        raise UsageError(f"{path} is not a results folder; name one with --results")
    return path
