"""What somebody may have meant by a name that does not exist."""

from collections.abc import Iterable, Mapping, Sequence

from hostbench.core.case import AxisValue, Selector, is_value, typed_value

_ALSO_CALLED = {"gpu": "cuda"}
"""What people say -> what it is called here, where another name is spelled more like it."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'transfer'?)`, or nothing where no name is near; to stand after the word."""
    from difflib import get_close_matches  # only a wrong name needs it

    by_lower = {name.lower(): name for name in known}
    lowered = word.lower()
    meant = _ALSO_CALLED.get(lowered, lowered)
    near = get_close_matches(meant if meant in by_lower else lowered, by_lower, n=1)
    return f" (did you mean {by_lower[near[0]]!r}?)" if near else ""


def why_no_case(selector: Selector, axes: Mapping[str, Mapping[str, Sequence[AxisValue]]]) -> str:
    """Which word of a selector that selects nothing is wrong. `axes` are those of each workload."""
    families = dict.fromkeys(workload.partition(".")[0] for workload in axes)
    own = [
        values
        for name, values in axes.items()
        if selector.workload in (name, name.partition(".")[0])
    ]
    if not own:
        word = selector.workload
        return f"there is no family or workload {word!r}{did_you_mean(word, [*families, *axes])}"
    for name, text in selector.axes:
        values = list(dict.fromkeys(value for of_one in own for value in of_one.get(name, ())))
        if not values:
            names = dict.fromkeys(known for of_one in own for known in of_one)
            meant = did_you_mean(name, names)
            return f"{selector.workload} has no axis {name!r}{meant}; it has {', '.join(names)}"
        if not any(is_value(value, text) for value in values):
            if not any(isinstance(value, str) for value in values):
                values.sort()
            known = [typed_value(name, value) for value in values]
            meant = "" if text[:1].isdigit() else did_you_mean(text, known)
            return f"{name} is never {text!r}{meant}; it is {', '.join(known)}"
    return "no case has all of these values"
