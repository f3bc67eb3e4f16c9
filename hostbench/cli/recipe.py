"""`hostbench recipe`: files that have hostbench run unattended, to be copied."""

from dataclasses import dataclass

from hostbench import recipes
from hostbench.cli.output import show
from hostbench.core.errors import EXIT_OK, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeOptions:
    name: tuple[str, ...]


def execute(options: RecipeOptions) -> int:
    """Print one, or which there are."""
    if len(options.name) > 1:
        raise UsageError(f"one recipe at a time, not {' and '.join(options.name)}")
    if options.name:
        show(recipes.read(*options.name), end="")
        return EXIT_OK
    width = max(map(len, recipes.PLACES))
    for name, place in recipes.PLACES.items():
        show(f"{name:<{width}}  goes to {place}")
    return EXIT_OK
