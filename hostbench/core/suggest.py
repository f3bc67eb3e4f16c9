"""What somebody may have meant by a name that does not exist."""

from collections.abc import Iterable, Mapping, Sequence

from hostbench.core.case import AxisValue, Selector, is_value, typed_value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'transfer'?)`, or nothing where no name is near; to stand after the word."""
    from difflib import get_close_matches  # only a wrong name needs it

    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def why_no_case(selector: Selector, axes: Mapping[str, Mapping[str, Sequence[AxisValue]]]) -> str:
    """Which word of a selector that selects nothing is wrong. `axes` are those of each workload."""
    word = selector.workload
    names = dict.fromkeys([*(name.partition(".")[0] for name in axes), *axes])
    if word not in names:
        return f"no family or workload {word!r}{did_you_mean(word, names)} is among them"
    values_of: dict[str, dict[AxisValue, None]] = {}
    for name in axes:
        for axis, values in axes[name].items() if word in (name, name.partition(".")[0]) else ():
            values_of.setdefault(axis, {}).update(dict.fromkeys(values))
    for axis, text in selector.axes:
        if axis not in values_of:
            meant = did_you_mean(axis, values_of)
            return f"{word} has no axis {axis!r}{meant}; it has {', '.join(values_of)}"
        if not any(is_value(value, text) for value in values_of[axis]):
            known = ", ".join(typed_value(axis, value) for value in values_of[axis])
            return f"{axis} is never {text!r}; it is {known}"
    return "no case has all of these values"
