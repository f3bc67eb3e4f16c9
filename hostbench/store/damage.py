"""What cannot be read of a results folder, so that a night says it."""

from pathlib import Path

from hostbench.store import nights, triage
from hostbench.store.history import History


def damage(results: Path, history: History) -> list[str]:
    """A line for each damaged file with its remedy: what the commands warn of as they read, and
    what only some of them read. `history`: that folder's, as it was opened."""
    lines = list(history.warnings)
    for folder in sorted(results.glob(f"*/{nights.FOLDER}")):
        nights.of_machine(results, folder.parent.name, lines.append)
    lines += [f"{path}: {text}" for path, text in triage.read(results).warnings]
    return lines
