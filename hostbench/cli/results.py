"""What `--results` names. To find the folder takes no pandas, which takes half a second."""

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hostbench.cli.output import on_reading, warn
from hostbench.core.asv_config import CONFIG, asv_results, project_root
from hostbench.core.errors import NothingMeasured, UsageError
from hostbench.core.files import is_url
from hostbench.core.suggest import did_you_mean

if TYPE_CHECKING:
    from hostbench.store.results import Results


def results_folder(named: str | None) -> Path:
    """`--results`, or the results of the project whose folder that is (what its asv.conf.json
    names, else `results` or `.asv/results`); else the one that the nearest asv.conf.json names,
    else ./results.

    It need not be there yet. Raises UsageError for what is no folder and cannot become one.
    """
    if named is not None:
        if is_url(named):
            raise UsageError(f"{named} is a table; this command needs a folder of files")
        folder = _checked(Path(named).absolute())
        below = [folder, folder / "results", folder / ".asv" / "results"]
        if (folder / CONFIG).is_file():
            folder = asv_results(folder)
        else:
            folder = next((own for own in below if any(own.glob("*/machine.json"))), folder)
        return _checked(folder)
    return _checked(asv_results(project_root(Path.cwd()) or Path.cwd()))


def stored_results(named: str | None) -> Path:
    """The same, and it is there. Raises NothingMeasured where it is not."""
    folder = results_folder(named)
    if not folder.is_dir():
        raise NothingMeasured(f"there is no results folder {folder}; `hostbench run` makes one")
    return folder


def open_history(named: str | None, machine: str | None = None) -> "Results":
    """What is stored there, in a folder or in a table at a URL; what cannot be read is a warning.
    Raises NothingMeasured where it is not there, or has nothing of the machine."""
    from hostbench.store.results import Results

    history = Results(named if named and is_url(named) else stored_results(named), on_reading())
    for warning in history.warnings:
        warn(warning)
    check_machine(machine, history.machines())
    return history


def check_machine(name: str | None, stored: Sequence[str]) -> None:
    """Raises NothingMeasured for a machine of which nothing is stored."""
    if name is not None and name not in stored:
        raise NothingMeasured(
            f"no run of machine {name!r} is stored{did_you_mean(name, stored)}; there are: "
            f"{', '.join(stored) or 'none'}"
        )


def _checked(path: Path) -> Path:
    try:
        why = None if stat.S_ISDIR(path.stat().st_mode) else "it is a file"
    except FileNotFoundError:
        why = "it is a link to nothing" if path.is_symlink() else None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    if why:
        raise UsageError(f"{path} is not a results folder: {why}; name a folder with --results")
    return path
