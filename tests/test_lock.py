"""`.ci/lock.txt` holds every package that CI installs, and the versions of constraints.txt."""

import os
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
EXTRAS = ("bench", "dashboard", "dev")
_OF_TORCH = re.compile(r"cuda-|triton$|nvidia-(?!ml-py$)")
"""What one build of torch needs and another does not."""


def pins(name: str) -> dict[str, str]:
    """Those for this Python and machine."""
    lines = (ROOT / name).read_text().splitlines()
    wanted = [Requirement(line.rstrip(" \\")) for line in lines if re.match(r"\w", line)]
    return {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==")
        for one in wanted
        if _holds(one, "")
    }


@pytest.fixture(scope="module")
def needed() -> set[str]:
    """The installed packages that hostbench needs with all extras, directly or not."""
    found: set[str] = set()
    left: list[tuple[str, tuple[str, ...]]] = [("hostbench", EXTRAS)]
    while left:
        name, extras = left.pop()
        for text in distribution(name).requires or ():
            wanted = Requirement(text)
            if any(_holds(wanted, extra) for extra in ("", *extras)):
                key = canonicalize_name(wanted.name)
                if key not in found and not _OF_TORCH.match(key):
                    found.add(key)
                    left.append((wanted.name, tuple(wanted.extras)))
    return found - {"torch"}


def _holds(wanted: Requirement, extra: str) -> bool:
    return wanted.marker is None or wanted.marker.evaluate({"extra": extra})


def test_it_has_every_package_and_the_pins_of_constraints(needed: set[str]) -> None:
    locked = pins(".ci/lock.txt")
    assert len(needed) > 100
    assert not needed - set(locked), "run scripts/lock"
    direct = pins("constraints.txt")
    del direct["torch"]
    assert direct.items() <= locked.items(), "run scripts/lock"


def test_every_package_has_a_hash() -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / ".ci/lock.txt").read_text().strip())
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}$", entry) for entry in entries)
    assert not re.search(r"https?://", "".join(entries))  # of no index, but the machine's own


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="CI alone installs what it holds")
def test_what_is_installed_is_what_it_holds(needed: set[str]) -> None:
    locked = pins(".ci/lock.txt")
    differs = {name for name in needed if distribution(name).version != locked[name]}
    assert not differs
