"""`hostbench simulate-history`: a tree of results whose changes are known."""

from argparse import Namespace

from hostbench.core.errors import EXIT_OK, UsageError
from hostbench.testing.histories import story, tree
from hostbench.testing.histories.made_up import made_up


def execute(args: Namespace) -> int:
    """Write the tree of --story, or of a story that --seed makes up."""
    numbers = {name: getattr(args, name) for name in ("machines", "commits", "series", "seed")}
    given = {name: value for name, value in numbers.items() if value is not None}
    if args.story is not None and given:
        raise UsageError(f"--story says --{next(iter(given))} itself: leave one of the two out")
    chosen = made_up(**given) if args.story is None else story.read(args.story)
    written = tree.write(args.output, chosen, git=args.git)
    print(
        f"{written.num_runs} simulated runs of {len(chosen.machines)} machines in "
        f"{written.results}; {written.truth} lists {written.num_events} events"
    )
    return EXIT_OK
