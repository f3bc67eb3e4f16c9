"""What the files of benchmarks/ call. Its interface is frozen: asv imports HEAD's files with the
hostbench of each commit."""

import sys
from pathlib import Path
from typing import Any


def measure(family: str) -> dict[str, Any]:
    """Body of a file's `setup_cache`: the launch medians of the family's cases, measured in fresh
    workers that load their own commit's copy of the file.

    A family that this commit lacks gives an empty cache, whose every case is then skipped.
    """
    from hostbench import asv_measure

    return asv_measure.measure(family, Path(sys._getframe(1).f_code.co_filename).resolve())
