"""A TOML file that a person wrote, read strictly: what is unknown or out of range is one error.

Every error is a UsageError that names the file, the key, the value, the limit and the remedy.
"""

import datetime
import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from hostbench.core.clock import is_storable, iso
from hostbench.core.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a file. `name` is how errors call it (`link`, `event 3`); "" for the whole."""

    file: str
    name: str
    values: Mapping[str, Any]
    remedy: str

    def only(self, keys: Collection[str]) -> "Table":
        """Itself. Raises UsageError for a key that is not among `keys`."""
        for key in self.values:
            if key not in keys:
                self.unknown(key, ", ".join(keys))
        return self

    def number(self, key: str, default: float, low: float, high: float) -> float:
        value = self.values.get(key, default)
        if not _is_number(value) or not low <= value <= high:
            self.refuse(key, f"a number from {low:g} to {high:g}")
        return float(value)

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.refuse(key, f"a whole number from {low} to {high}")
        return int(value)

    def one_of(self, key: str, default: int, choices: Sequence[int]) -> int:
        value = self.values.get(key, default)
        if value not in choices or isinstance(value, bool | float):
            self.refuse(key, f"one of {', '.join(map(str, choices))}")
        return int(value)

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return bool(value)

    def text(self, key: str, default: str = "", choices: Sequence[str] = ()) -> str:
        """One printable line of at most 200 characters; one of `choices` where there are any."""
        value = self.values.get(key, default)
        if choices and value not in choices:
            self.refuse(key, f"one of {', '.join(choices)}")
        if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
            self.refuse(key, "a line of at most 200 printable characters")
        return str(value)

    def time(self, key: str) -> str | None:
        """ISO 8601 in UTC; None where the key is missing."""
        value = self.values.get(key)
        if value is None:
            return None
        try:
            at = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
            if not isinstance(at, datetime.datetime) or at.tzinfo is None:
                raise ValueError
            if at.year < 1970 or not is_storable(at.timestamp()):
                raise ValueError
            return iso(at.timestamp())
        except ValueError:
            self.refuse(key, "a time with its zone from 1970 to 2261, as in 2026-03-01T02:00:00Z")

    def table(self, key: str) -> "Table":
        """The table of that name, empty where there is none."""
        return self._of(key, self.values.get(key, {}), key)

    def tables(self, key: str) -> list["Table"]:
        """The tables written as [[key]]."""
        found = self.values.get(key, [])
        if not isinstance(found, list):
            self.refuse(key, f"tables: write each as [[{key}]]")
        return [self._of(key, one, f"{key} {num}") for num, one in enumerate(found, start=1)]

    def refuse(self, key: str, limit: str) -> NoReturn:
        """Raise UsageError: the key's value is not within its limit."""
        self._raise(key, f"is {self.values.get(key)!r:.60}; it must be {limit}")

    def unknown(self, key: str, known: str) -> NoReturn:
        """Raise UsageError: there is no such key."""
        self._raise(key, f"is unknown; there are {known}")

    def _raise(self, key: str, said: str) -> NoReturn:
        place = f"{self.name}: " if self.name else ""
        raise UsageError(f"{self.file}: {place}{key!r} {said}; {self.remedy}")

    def _of(self, key: str, values: Any, name: str) -> "Table":
        if not isinstance(values, dict):
            self.refuse(key, "a table of keys and values")
        whole = f"{self.name}.{name}" if self.name else name
        return Table(file=self.file, name=whole, values=values, remedy=self.remedy)


def load(path: Path, remedy: str) -> Table:
    """The whole file. `remedy` ends every error. Raises UsageError."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); {remedy}") from error
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError too
        raise UsageError(f"{path} is no TOML ({error}); {remedy}") from error
    return Table(file=str(path), name="", values=values, remedy=remedy)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
