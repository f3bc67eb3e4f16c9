"""Recipes: files that have hostbench run unattended, to be copied into other people's repositories.

They are read from here by `hostbench recipe` and `hostbench init`; docs/ci.md explains them.
"""

from importlib.resources import files

from hostbench.core.errors import UsageError
from hostbench.core.suggest import did_you_mean

PLACES = {
    "github-nightly.yml": ".github/workflows/hostbench-nightly.yml",
    "github-compare.yml": ".github/workflows/hostbench-compare.yml",
    "github-comment.yml": ".github/workflows/hostbench-comment.yml",
    "github-check.yml": ".github/workflows/hostbench-check.yml",
    "gitlab.yml": ".gitlab/hostbench.yml",
    "nightly.sh": "~/hostbench-nightly",
    "crontab": "crontab -e",
    "hostbench-nightly.service": "~/.config/systemd/user/hostbench-nightly.service",
    "hostbench-nightly.timer": "~/.config/systemd/user/hostbench-nightly.timer",
    "Containerfile": "Containerfile",
}
"""Where each recipe goes."""


def read(name: str) -> str:
    """The text of a recipe. Raises UsageError for a name that is none."""
    if name not in PLACES:
        known = ", ".join(PLACES)
        raise UsageError(
            f"there is no recipe {name!r}{did_you_mean(name, PLACES)}; there are {known}"
        )
    return files(__name__).joinpath(name).read_text()
