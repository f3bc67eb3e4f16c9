"""Choices that live in the URL: every one is written there, so a copied link restores the view."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import StopException
from words import plain

_HERE = "chosen here"
_SHOWN = "shown last"


@contextlib.contextmanager
def in_the_url(page: str) -> Iterator[None]:
    """Write what is chosen within, all of it at once: one entry of the browser's history.

    The page with the choices that it had already, under another URL, was reached by Back: nothing
    is written, or Back would never lead away from the page.
    """
    here: dict[str, str] = {}
    st.session_state[_HERE] = here
    try:
        yield
    except StopException:
        _write(page, here)
        raise
    _write(page, here)


def _write(page: str, here: dict[str, str]) -> None:
    if st.session_state.get(_SHOWN) != (page, here):
        st.session_state[_SHOWN] = (page, here)
        if here.items() - st.query_params.items():
            st.query_params.update(here)


def one(
    key: str,
    label: str,
    options: Sequence[str],
    text: Callable[[str], str] = str,
    *,
    page: str = "",
) -> str:
    """A select box; its first option is the default. Pages share what was chosen under one key,
    but for one that names itself."""
    widget = _prepare(key, options, page=page)
    box = st.selectbox(label, options, key=widget, format_func=text)
    return _chosen(key, str(box), widget)


def either(key: str, label: str, options: Sequence[str], *, page: str = "") -> str:
    """A few fixed options side by side; the first is the default."""
    widget = _prepare(key, options, page=page)
    return _chosen(key, str(st.radio(label, options, key=widget, horizontal=True)), widget)


def yes(key: str, label: str, *, default: bool = True) -> bool:
    """A switch."""
    options = ("yes", "no") if default else ("no", "yes")
    widget = _prepare(key, options, lambda value: value == "yes")
    return _chosen(key, "yes" if st.toggle(label, key=widget) else "no", widget) == "yes"


def _prepare(
    key: str, options: Sequence[str], value: Callable[[str], Any] = str, page: str = ""
) -> str:
    """Set the widget to what the URL says, else to what was chosen before, else to the default.

    A URL that differs from what was written last was followed, edited or reached by Back.
    """
    widget = f"{page} {key}" if page else key
    said, before = st.query_params.get(key), st.session_state.get(_memory(widget))
    followed = said is not None and said != before
    now = st.session_state.get(widget)
    if not followed and now in [value(option) for option in options]:
        st.session_state[widget] = now  # else the widget of another page begins at its default
        return widget
    if followed and said not in options:
        st.warning(f"The link asks for {plain(key)} {plain(said)}, which is not here.")
    wanted = said if followed else before
    st.session_state[widget] = value(str(wanted) if wanted in options else options[0])
    return widget


def _chosen(key: str, chosen: str, widget: str) -> str:
    st.session_state[_HERE][key] = st.session_state[_memory(widget)] = chosen
    return chosen


def _memory(widget: str) -> str:
    """Where the choice outlives its widget, which streamlit forgets on another page."""
    return f"chosen {widget}"
