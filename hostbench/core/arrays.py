"""The type of arrays of numbers, for annotations; kept apart because it needs numpy."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
