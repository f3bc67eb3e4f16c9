"""The names of the families of noise that `hostbench.core.noise` draws; without numpy."""

from typing import Literal, get_args

Family = Literal["gauss", "heavy", "drift", "bimodal", "session"]
FAMILIES: tuple[Family, ...] = get_args(Family)
