"""A TOML file that a person wrote, decoded as a msgspec struct.

What is unknown, missing or out of range is one UsageError that names the file, the key, its value,
the limit and the remedy. The limits are the struct's own: types and `msgspec.Meta`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
from msgspec import Meta, inspect

from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored

T = TypeVar("T")

OneLine = Annotated[
    str,
    Meta(
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]*\Z",
        description="a line of at most 200 printable characters",
    ),
]
_TIME = "a time with its zone, as in 2026-03-01T02:00:00Z"
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")


def decode_toml(path: Path, kind: type[T], remedy: str) -> T:
    """The whole file as `kind`. `remedy` ends every error, which is a UsageError."""
    try:
        raw = msgspec.toml.decode(read_stored(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML ({error}); {remedy}") from error
    try:
        return convert_toml(raw, kind)
    except ValueError as error:
        raise UsageError(f"{path}: {error}; {remedy}") from None


def convert_toml(raw: Any, kind: type[T]) -> T:
    """A table as `kind`. Raises ValueError, which names the key, its value and the limit."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_explain(str(error), raw, kind)) from None


def refuse(key: str, value: object, limit: str) -> NoReturn:
    """Raise ValueError: to be called by a struct's `__post_init__`, for what no type can say."""
    raise ValueError(f"{key!r} is {value!r:.60}; it must be {limit}")


def _explain(message: str, raw: Any, kind: Any) -> str:
    """msgspec's message in our words, with the value and the limit that it leaves out."""
    said, _, where = message.partition(" - at ")
    value, info, names = raw, _table(inspect.type_info(kind)), [""]
    for name, place in _STEP.findall(where):
        if place.isdecimal():
            info, value = _table(_bare(info).item_type), value[int(place)]
            names[-1] += f" {int(place) + 1}"
            continue
        key = name or _culprit(message, raw, value, kind)
        info, value = _table(_fields(info)[key] if name else info.value_type), value[key]
        names.append(key)
    if where.startswith("`key` in"):
        key = _culprit(message, raw, value, kind)
        return f"{_named(names)}{key!r} is unknown; there are {_limit(info.key_type)}"
    if field := re.fullmatch(r"Object contains unknown field `(.*)`", said):
        return f"{_named(names)}{field[1]!r} is unknown; there are {', '.join(_fields(info))}"
    if field := re.fullmatch(r"Object missing required field `(.*)`", said):
        limit = _limit(_fields(info)[field[1]])
        return f"{_named(names)}{field[1]!r} is missing; it must be {limit}"
    if said.startswith(("Expected", "Invalid")):
        return f"{_named(names[:-1])}{names[-1]!r} is {value!r:.60}; it must be {_limit(info)}"
    return f"{_named(names)}{said}"


def _culprit(message: str, raw: Any, table: dict[str, Any], kind: Any) -> str:
    """The key of `table`, which lies in `raw`, that the message is about: alone it raises it too.

    msgspec names no key of a dict.
    """
    every = dict(table)
    try:
        for key, value in every.items():
            table.clear()
            table[key] = value
            try:
                msgspec.convert(raw, kind)
            except msgspec.ValidationError as error:
                if str(error) == message:
                    return key
        return "?"
    finally:
        table.clear()
        table.update(every)


def _named(names: list[str]) -> str:
    """`machine 1.link: `; nothing for the whole file."""
    text = ".".join(filter(None, names))
    return f"{text}: " if text else ""


def _table(info: Any) -> Any:
    """The type itself of one that may also be missing."""
    if isinstance(info, inspect.UnionType) and len(info.types) == 2 and info.includes_none:
        return next(one for one in info.types if not isinstance(one, inspect.NoneType))
    return info


def _bare(info: Any) -> Any:
    """The type itself of one with a description."""
    return info.type if isinstance(info, inspect.Metadata) else info


def _fields(info: Any) -> Mapping[str, Any]:
    return {field.encode_name: field.type for field in info.fields}


def _limit(info: Any) -> str:
    """What a value must be, in words."""
    match info:
        case inspect.Metadata(extra_json_schema={"description": str(text)}):
            return text
        case inspect.UnionType():
            every = (one for one in info.types if not isinstance(one, inspect.NoneType))
            return " or ".join(map(_limit, every))
        case inspect.LiteralType():
            return f"one of {', '.join(map(str, info.values))}"
        case inspect.IntType():
            return f"a whole number{_between(info)}"
        case inspect.FloatType():
            return f"a number{_between(info)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.DateTimeType():
            return _TIME
        case inspect.ListType():
            return "tables, each written in double brackets"
        case _:
            return "a table of keys and values"


def _between(info: Any) -> str:
    return "" if info.ge is None else f" from {info.ge:g} to {info.le:g}"
