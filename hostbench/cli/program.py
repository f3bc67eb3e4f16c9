"""How this program was started, so that a command that we print can be typed as it stands."""

import os
import shutil
import sys
from pathlib import Path
from shlex import quote


def program() -> str:
    """`hostbench` where that is on PATH, else the path or `python -m hostbench` that was used."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{short(Path(sys.executable))} -m hostbench"
    found = shutil.which("hostbench")
    if found and Path(found).resolve() == started.resolve():
        return "hostbench"
    return short(started)


def given(options: object, *names: str) -> str:
    """Those of these options that were given, each with a space before it, to be typed again."""
    values = ((name, getattr(options, name)) for name in names)
    return "".join(
        f" --{name}" if value is True else f" --{name} {quote(str(value))}"
        for name, value in values
        if value is not None and value is not False
    )


def short(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
