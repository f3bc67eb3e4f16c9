"""How much slower than its link the simulated device is now: declared slowdowns, and noise."""

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np

from hostbench.core.case import Case, Selector
from hostbench.core.noise import noise

_DRAWS = 64
"""Values drawn at once; more launches or samples than that begin again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Noise of one family of `hostbench.core.noise`."""

    family: str = "gauss"
    launch: float = 0.0
    """Standard deviation of the logarithm from launch to launch; 0 for none."""
    sample: float = 0.0
    """The same from one device-wide synchronize to the next."""
    seed: str = "0"
    """The same text gives the same noise."""

    def factors(self, sigma: float, *about: object) -> list[float]:
        """Factors on the seconds; `about` is what they are of, and part of their seed."""
        if not sigma:
            return [1.0]
        text = "-".join(map(str, (self.seed, *about)))
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
        drawn = noise(self.family, _DRAWS, sigma, np.random.default_rng(seed))
        return [float(factor) for factor in np.exp(drawn)]


@dataclass(slots=True, kw_only=True)
class Pace:
    """1 until a case is entered, so that what is built and calibrated is so at full speed."""

    slowdown: tuple[tuple[Selector, float], ...] = ()
    """Each that selects the case counts; they multiply."""
    noise: Noise = field(default_factory=Noise)
    launch: int = 0
    factor: float = 1.0
    """What every time but a delay is multiplied by now."""
    _of_case: float = 1.0
    _of_samples: list[float] = field(default_factory=lambda: [1.0])
    _sample: int = 0

    def enter(self, case: Case) -> None:
        launches = self.noise.factors(self.noise.launch, case, "launches")
        slower = math.prod(by for selector, by in self.slowdown if selector.selects(case))
        self._of_case = slower * launches[self.launch % len(launches)]
        self._of_samples = self.noise.factors(self.noise.sample, case, self.launch)
        self._sample = -1
        self.next_sample()

    def next_sample(self) -> None:
        self._sample = (self._sample + 1) % len(self._of_samples)
        self.factor = self._of_case * self._of_samples[self._sample]

    def leave(self) -> None:
        self._of_case, self._of_samples, self._sample, self.factor = 1.0, [1.0], 0, 1.0
