"""Series with a known step in the noise of an asv results tree (as in Hunter, arXiv 2301.03034)."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests import known_changes as noise
from tests.known_changes import Series, Step


def residuals(tree: Path, num: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Logarithms less their running median over 21, of `num` time series of 150 points or more."""
    found: dict[tuple[str, ...], list[tuple[int, float]]] = defaultdict(list)
    for path in sorted(tree.glob("*/*.json")):
        data = json.loads(path.read_text())
        for name, entry in data.get("results", {}).items():
            values = (entry or [None])[0] if isinstance(entry, list) else None
            for i, value in enumerate(values or ()):
                if isinstance(value, float) and value > 0 and ".time_" in name:
                    key = (path.parent.name, data["env_name"], name, str(i))
                    found[key].append((data["date"], value))
    long = [found[key] for key in sorted(found) if len(found[key]) >= 150]
    if not long:
        sys.exit(f"{tree} has no time series of 150 points or more; give an asv results folder")
    chosen = rng.choice(len(long), num, replace=len(long) < num)
    logs = [np.log([value for _, value in sorted(long[i])]) for i in chosen]
    return [log - running_median(log, 21) for log in logs]


def running_median(values: np.ndarray, width: int) -> np.ndarray:
    padded = np.pad(values, width // 2, mode="reflect")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


def real_suite(noises: list[np.ndarray], rng: np.random.Generator) -> Iterator[Series]:
    """Block bootstrap of each residual, blocks of 10, once with and once without a step."""
    for off in noises:
        for steps in ((), (random_step(rng),)):
            starts = rng.integers(0, len(off) - 10, 20)
            log = np.concatenate([off[a : a + 10] for a in starts])
            yield noise.with_steps(log, steps)


def random_step(rng: np.random.Generator) -> Step:
    size = rng.choice(noise.STEPS) * rng.choice([-1, 1])
    return Step(index=int(rng.integers(20, 180)), log_effect=float(np.log1p(size)))
