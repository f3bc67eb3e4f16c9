"""`hostbench simulate-history`: a tree of results whose changes are known."""

from dataclasses import dataclass
from pathlib import Path

from hostbench.core.errors import EXIT_OK, UsageError
from hostbench.testing.histories import tree
from hostbench.testing.histories.made_up import made_up
from hostbench.testing.histories.story import read


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateHistoryOptions:
    output: Path
    story: Path | None
    git: bool
    machines: int | None
    commits: int | None
    series: int | None
    seed: int | None


def execute(options: SimulateHistoryOptions) -> int:
    """Write the tree of --story, or of a story that --seed makes up."""
    numbers = {name: getattr(options, name) for name in ("machines", "commits", "series", "seed")}
    given = {name: value for name, value in numbers.items() if value is not None}
    if options.story is not None and given:
        raise UsageError(f"--story says --{next(iter(given))} itself: leave one of the two out")
    chosen = made_up(**given) if options.story is None else read(options.story)
    written = tree.write(options.output, chosen, git=options.git)
    print(
        f"{written.num_runs} simulated runs of {len(chosen.machines)} machines in "
        f"{written.results}; {written.truth} lists {written.num_events} events"
    )
    return EXIT_OK
