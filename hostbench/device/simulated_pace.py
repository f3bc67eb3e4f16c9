"""How much slower than its link the simulated device is now: declared slowdowns, and noise."""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta, Struct

from hostbench.core.case import Case, Selector
from hostbench.core.noise_family import Family

_DRAWS = 64
"""Values drawn at once; more launches or samples than that begin again."""


Spread = Annotated[float, Meta(ge=0.0, le=0.5)]
"""Standard deviation of the logarithm of seconds: 0.01 is 1 %."""


class Noise(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """`[noise]` of a simulated run: noise of one family of `hostbench.core.noise`."""

    family: Family = "gauss"
    launch: Spread = 0.0
    """From launch to launch."""
    sample: Spread = 0.0
    """From one device-wide synchronize to the next."""
    seed: Annotated[int, Meta(ge=0, le=1 << 62)] = 0


@dataclass(slots=True, kw_only=True)
class Pace:
    """1 until a case is entered, so that what is built and calibrated is so at full speed."""

    slowdown: tuple[tuple[Selector, float], ...] = ()
    """Each that selects the case counts; they multiply."""
    noise: Noise = field(default_factory=Noise)
    of: str = ""
    """What the noise is of, beside the case and the launch: the same text draws the same."""
    launch: int = 0
    factor: float = 1.0
    """What every time but a delay is multiplied by now."""
    _of_case: float = 1.0
    _of_samples: list[float] = field(default_factory=lambda: [1.0])
    _sample: int = 0

    def enter(self, case: Case) -> None:
        launches = self._drawn(self.noise.launch, case, "launches")
        slower = math.prod(by for selector, by in self.slowdown if selector.selects(case))
        self._of_case = slower * launches[self.launch % len(launches)]
        self._of_samples = self._drawn(self.noise.sample, case, self.launch)
        self._sample = -1
        self.next_sample()

    def next_sample(self) -> None:
        self._sample = (self._sample + 1) % len(self._of_samples)
        self.factor = self._of_case * self._of_samples[self._sample]

    def leave(self) -> None:
        self._of_case, self._of_samples, self._sample, self.factor = 1.0, [1.0], 0, 1.0

    def _drawn(self, sigma: float, *about: object) -> list[float]:
        """Factors on the seconds; `about` is what they are of, and part of their seed."""
        if not sigma:
            return [1.0]
        import numpy as np  # where noise is declared alone: every process of asv's comes by here

        from hostbench.core.noise import noise

        text = "-".join(map(str, (f"{self.noise.seed} {self.of}", *about)))
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
        drawn = noise(self.noise.family, _DRAWS, sigma, np.random.default_rng(seed))
        return [float(factor) for factor in np.exp(drawn)]
