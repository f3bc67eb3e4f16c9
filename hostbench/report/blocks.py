"""What a page is made of. Rows and records hold plain values; the writers make words of them. Text
in all of it may come from anybody."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, Any]
"""A specification of Vega-Lite, or a part of one."""


class Title(str):
    """Stands above a page."""


class Heading(str):
    """Stands above a part of it."""


class Subheading(str):
    """Stands above what is said of one thing in it."""


class Item(str):
    """One line of a list."""


class Quoted(Item):
    """A line of a list that may be anybody's: all of it is code in Markdown, where nothing is
    markup, a link or a mention."""


class Struck(str):
    """A cell that counts for nothing, crossed out."""


def _words(value: Any) -> str:
    if isinstance(value, str):  # also one that is struck out
        return value
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: one value of a row, or a few that are read together."""

    keys: tuple[str, ...]
    """The names of its values in a row, and in JSON and CSV, with their unit."""
    title: str
    format: Callable[..., str] = _words
    """The words for these values."""
    right: bool = False
    code: bool = False
    """A name that a person types: code in Markdown."""
    below: bool = False
    """In text it is a line below the rows, once for neighbours that share it. Only the last may."""


@dataclass(frozen=True, slots=True)
class Table:
    """Every row has a value for each key of each column."""

    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Any]]
    indent: int = 0
    """Of its lines in text, which then has no titles."""
    status: str = ""
    """The key of the value that colours a row on a terminal, by hostbench.report.write.STYLES."""

    @property
    def keys(self) -> list[str]:
        return [key for column in self.columns for key in column.keys]

    def words(self) -> Iterator[list[str]]:
        """The cells of each row as a person reads them."""
        for row in self.rows:
            yield [column.format(*(row[key] for key in column.keys)) for column in self.columns]


@dataclass(frozen=True, slots=True)
class Chart:
    """Drawn in HTML alone, and made only there."""

    title: str
    make: Callable[[], Spec | None]
    """Its `description` is added to the title; None where there is nothing to draw."""


Block: TypeAlias = str | Table | Chart
"""A part of a page; a plain text is a line, an empty one a gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a command says. Each part is made when a format asks for it."""

    blocks: Callable[[], Sequence[Block]]
    """Of text, Markdown and HTML."""
    table: Callable[[], Table] | None = None
    """Of CSV; else the first table of the blocks."""
    document: Callable[[], Any] | None = None
    """Of JSON; else the rows of that table."""
