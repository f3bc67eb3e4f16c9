"""`hostbench comment`: a file as the comment on a pull request, updated in place."""

import os
from dataclasses import dataclass
from pathlib import Path

from hostbench.cli.output import show
from hostbench.core.errors import EXIT_OK, DataError, UsageError
from hostbench.core.files import open_stored
from hostbench.core.units import MIB
from hostbench.notify import comments
from hostbench.notify.markup import safe

_MOST_BYTES = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentOptions:
    file: Path
    pull: int | None


def execute(options: CommentOptions) -> int:
    """Whoever wrote the file: nothing in it acts, and it is posted under its marker alone."""
    try:
        marker, text = safe(_read(options.file))
    except DataError as error:
        raise UsageError(f"{options.file} is no comment: {error}") from error
    for thread in comments.threads(os.environ, options.pull):
        show(f"{thread.name}: comment {comments.post(thread, marker, text)}")
    return EXIT_OK


def _read(path: Path) -> str:
    """A regular file, and no link to another place."""
    try:
        with open_stored(path, path.parent) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise DataError("it is larger than 1 MiB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DataError("it is no UTF-8") from error
