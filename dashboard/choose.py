"""Choices that live in the address: it alone says what is chosen, so that a copied link restores
the view and Back undoes the last choice.

What is not in the address is the default: a page that is visited is one entry of the browser's
history, and each choice one more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pandas as pd
import streamlit as st
from words import plain

_CHOSEN = "all that is chosen on this page"


def begin() -> None:
    """Before a page runs: nothing is chosen yet."""
    st.session_state[_CHOSEN] = []


def link() -> str:
    """The address of this view with every choice in it, also those that are the default today."""
    chosen = {key: text(st.session_state[key]) for key, text in st.session_state[_CHOSEN]}
    address = urlsplit(st.context.url or "")
    said = {name: st.query_params.get_all(name) for name in st.query_params}
    query = urlencode({**said, **chosen}, doseq=True, quote_via=quote)
    return address._replace(query=query, fragment="").geturl()


def one(
    key: str,
    label: str,
    options: Sequence[str],
    text: Callable[[str], str] = str,
    *,
    drops: Sequence[str] = (),
) -> str:
    """A select box; its first option is the default. Another choice takes the keys that it `drops`
    out of the address: what they named may not be there any more."""
    _set(key, options)
    changed = _write(key, str, drops)
    return str(st.selectbox(label, options, key=key, format_func=text, on_change=changed))


def text(key: str, label: str, hint: str) -> str:
    """A field for words; empty by default."""
    st.session_state[key] = st.query_params.get(key, "")
    st.session_state.setdefault(_CHOSEN, []).append((key, str))
    return str(st.text_input(label, key=key, placeholder=hint, on_change=_write(key, str)))


def some(
    key: str,
    label: str,
    options: Sequence[str],
    text: Callable[[str], str] = str,
    *,
    most: int,
    drops: Sequence[str] = (),
) -> list[str]:
    """Several at once; none by default. The address has the key once for each."""
    said = st.query_params.get_all(key)
    gone = [one for one in said if one not in options]
    if gone:
        st.warning(f"The link asks for {plain(key)} {plain(', '.join(gone))}, which is not here.")
    st.session_state[key] = [one for one in said if one in options][:most]

    def write() -> None:
        kept = {name: st.query_params.get_all(name) for name in st.query_params}
        kept = {name: own for name, own in kept.items() if name not in drops}
        st.query_params.from_dict({**kept, key: st.session_state[key]})

    chosen = st.multiselect(
        label, options, key=key, format_func=text, max_selections=most, on_change=write
    )
    return [str(one) for one in chosen]


def counted(key: str, label: str, numbers: Mapping[str, int]) -> str:
    """A few kinds side by side, each with how many there are of it; the first is the default."""
    _set(key, list(numbers))
    changed = _write(key, str)
    box = st.segmented_control(
        label,
        list(numbers),
        key=key,
        format_func=lambda name: f"{name} **{numbers[name]:,}**",
        on_change=changed,
        required=True,
        label_visibility="collapsed",
    )
    return str(box)


def row(key: str, label: str, rows: pd.DataFrame, names: Sequence[str], **look: Any) -> str | None:
    """A table; a row that is clicked writes its name into the address. The name that is there."""

    def write() -> None:
        chosen = st.session_state[widget].selection.rows
        if chosen:
            st.query_params[key] = names[chosen[0]]

    widget = f"{key} row"
    st.dataframe(
        rows,
        key=widget,
        hide_index=True,
        width="stretch",
        on_select=write,
        selection_mode="single-row",
        placeholder="",
        **look,
    )
    st.caption(f"Click the box at the left of a row to see {label}.")
    said = st.query_params.get(key)
    if said is not None and said not in names:
        st.warning(f"The link asks for {plain(key)} {plain(said)}, which is not here.")
        return None
    return said


def either(key: str, label: str, options: Sequence[str]) -> str:
    """A few fixed options side by side; the first is the default."""
    _set(key, options)
    changed = _write(key, str)
    return str(st.radio(label, options, key=key, horizontal=True, on_change=changed))


def yes(key: str, label: str, *, default: bool = True) -> bool:
    """A switch."""
    _set(key, ("yes", "no") if default else ("no", "yes"), lambda said: said == "yes", _yes_or_no)
    changed = _write(key, _yes_or_no)
    return bool(st.toggle(label, key=key, on_change=changed))


def _set(
    key: str,
    options: Sequence[str],
    value: Callable[[str], Any] = str,
    text: Callable[[Any], str] = str,
) -> None:
    """Set a widget to what the address says, else to the first option. `value` of an option is what
    the widget holds, `text` its way back."""
    said = st.query_params.get(key)
    if said is not None and said not in options:
        st.warning(f"The link asks for {plain(key)} {plain(said)}, which is not here.")
        said = None
    st.session_state[key] = value(options[0] if said is None else said)
    st.session_state.setdefault(_CHOSEN, []).append((key, text))


def _yes_or_no(on: bool) -> str:
    return "yes" if on else "no"


def _write(key: str, text: Callable[[Any], str], drops: Sequence[str] = ()) -> Callable[[], None]:
    """Write a choice into the address, before the page runs again."""

    def write() -> None:
        kept = {name: st.query_params.get_all(name) for name in st.query_params}
        kept = {name: own for name, own in kept.items() if name not in drops}
        st.query_params.from_dict({**kept, key: text(st.session_state[key])})

    return write
