"""The one function that opens what `--results` names."""

from hostbench.cli.output import on_reading, warn
from hostbench.cli.results import stored_results
from hostbench.core.files import is_url
from hostbench.store.results import Results


def open_history(named: str | None) -> Results:
    """What is stored there, in a folder or in a table at a URL; what cannot be read is a warning.
    Raises as `stored_results`."""
    history = Results(named if named and is_url(named) else stored_results(named), on_reading())
    for warning in history.warnings:
        warn(warning)
    return history
