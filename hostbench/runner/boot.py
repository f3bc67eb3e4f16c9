"""Starting Python on the hostbench of one folder, whatever else is installed or on the path."""

import os

BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop()); "
    "from hostbench.asv_guard import drop_editable_finder; drop_editable_finder(); "
)
"""Code for `python -P -c`; the folder is the last argument."""


def environment() -> dict[str, str]:
    """This process's, without what would put another hostbench on the path."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
