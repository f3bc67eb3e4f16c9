"""`hostbench simulate-history`: a tree of results whose changes are known."""

from pathlib import Path

from hostbench.core.errors import EXIT_OK, UsageError
from hostbench.testing.histories import tree
from hostbench.testing.histories.made_up import made_up
from hostbench.testing.histories.story import read


def execute(*, output: Path, story: Path | None, git: bool, **numbers: int | None) -> int:
    """Write the tree of --story, or of a story that --seed makes up."""
    given = {name: value for name, value in numbers.items() if value is not None}
    if story is not None and given:
        raise UsageError(f"--story says --{next(iter(given))} itself: leave one of the two out")
    chosen = made_up(**given) if story is None else read(story)
    written = tree.write(output, chosen, git=git)
    print(
        f"{written.num_runs} simulated runs of {len(chosen.machines)} machines in "
        f"{written.results}; {written.truth} lists {written.num_events} events"
    )
    return EXIT_OK
