"""Other projects' detectors behind the interface of ours: seconds in, (index, log effect) out.

Each is the real package, called as its own documentation calls it; one that is not installed says
so. `prototype` is the reference experiment's: ruptures' kernel PELT, pruned.
"""

import contextlib
import io
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

Found = list[tuple[int, float]]
Detector = Callable[[np.ndarray], Found]


def peers() -> dict[str, Detector | str]:
    """Name -> detector, or why there is none."""
    found: dict[str, Detector | str] = {}
    for names, make in (
        (("ruptures rbf, pruned (best known)", "ruptures rbf", "ruptures l2, BIC"), _ruptures),
        (("asv regressions, 5 %", "asv steps"), _asv),
        (("otava, default",), _otava),
    ):
        try:
            found.update(zip(names, make(), strict=True))
        except ImportError as error:
            found.update(dict.fromkeys(names, f"not installed ({error})"))
    return found


def _levels(logs: np.ndarray, bounds: Sequence[int]) -> Found:
    edges = [0, *bounds, len(logs)]
    levels = [np.median(logs[a:b]) for a, b in itertools.pairwise(edges)]
    return [(b, float(levels[i + 1] - levels[i])) for i, b in enumerate(bounds)]


def _mad(values: np.ndarray) -> float:
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _ruptures() -> list[Detector]:
    from ruptures import KernelCPD

    def rbf_bounds(logs: np.ndarray) -> list[int]:
        scaled = (logs - np.median(logs)) / max(_mad(logs), 1e-9)
        model = KernelCPD(kernel="rbf", params={"gamma": 0.5}, min_size=2).fit(scaled[:, None])
        return [int(b) for b in model.predict(pen=2 * math.log(len(logs)))[:-1]]

    def rbf(seconds: np.ndarray) -> Found:
        logs = np.log(seconds)
        return _levels(logs, rbf_bounds(logs))

    def pruned(seconds: np.ndarray) -> Found:
        logs = np.log(seconds)
        bounds = rbf_bounds(logs)
        while bounds:
            worth = [_worth(logs, bounds, i) for i in range(len(bounds))]
            if min(worth) >= 1:
                break
            del bounds[worth.index(min(worth))]
        return _levels(logs, bounds)

    def l2(seconds: np.ndarray) -> Found:
        logs = np.log(seconds)
        scaled = logs / max(_mad(np.diff(logs)) / math.sqrt(2), 1e-9)
        model = KernelCPD(kernel="linear", min_size=2).fit(scaled[:, None])
        return _levels(logs, [int(b) for b in model.predict(pen=2 * math.log(len(logs)))[:-1]])

    return [pruned, rbf, l2]


def _worth(logs: np.ndarray, bounds: list[int], i: int) -> float:
    """A boundary's effect over 1.5 % and over 3 standard errors, the smaller."""
    edges = [0, *bounds, len(logs)]
    left, right = logs[edges[i] : edges[i + 1]], logs[edges[i + 1] : edges[i + 2]]
    off = np.concatenate([left - np.median(left), right - np.median(right)])
    error = 1.2533 * _mad(off) * math.sqrt(1 / len(left) + 1 / len(right))
    effect = abs(float(np.median(right) - np.median(left)))
    return min(effect / 0.015, effect / (3 * error + 1e-12))


def _asv() -> list[Detector]:
    from asv.step_detect import detect_regressions, detect_steps

    def regressions(seconds: np.ndarray) -> Found:
        _, _, steps = detect_regressions(detect_steps(seconds.tolist()), threshold=0.05)
        return [(after, math.log(best / value)) for _, after, value, best in steps or ()]

    def steps(seconds: np.ndarray) -> Found:
        found = detect_steps(seconds.tolist())
        pairs = itertools.pairwise(found)
        return [(int(b[0]), math.log(b[2] / a[2])) for a, b in pairs]

    return [regressions, steps]


def _otava() -> list[Detector]:
    with contextlib.redirect_stderr(io.StringIO()):
        from otava.analysis import compute_change_points

    def default(seconds: np.ndarray) -> Found:
        points, _ = compute_change_points((seconds * 1e3).tolist())
        return _levels(np.log(seconds), [int(point.index) for point in points])

    return [default]
