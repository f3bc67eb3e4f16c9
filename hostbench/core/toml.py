"""A TOML file that a person wrote, decoded as a msgspec struct.

What is unknown, missing or out of range is one UsageError: the file, the key and its limit in
msgspec's own words, the remedy. The limits are the struct's: types and `msgspec.Meta`.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored

T = TypeVar("T")


def decode_toml(path: Path, kind: type[T], remedy: str) -> T:
    """The whole file as `kind`. `remedy` ends every error, which is a UsageError."""
    try:
        raw = msgspec.toml.decode(read_stored(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML ({error}); {remedy}") from error
    try:
        return msgspec.convert(raw, kind)
    except ValueError as error:
        raise UsageError(f"{path}: {error}; {remedy}") from None
