"""Lanes as one SVG document without script: a lane a row, time from left to right.

Places and widths are percentages and texts are pixels, so that the same document reads on a wide
screen and on a telephone. It is light or dark as its reader's screen is. Row and hue say what a
span is, and hatching that the host only waits; the hues are those of the charts, which the
colour-blind tell apart. A browser shows each span's name, time and bytes under the pointer.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from hostbench.core.lanes import HOST, KINDS, Lane, Span, SpanKind, busy_s, extent
from hostbench.core.units import format_bytes, format_seconds, number_of, one_line

Scheme = Literal["auto", "light", "dark"]

MAX_SPANS = 3000
"""More are merged, neighbours that are short on the picture first."""
MAX_LANES = 80
"""Ten for each of eight ranks."""
_FINEST = 4000
"""Parts of the whole time that a first merging tells apart."""
_LINE, _BAR, _BETWEEN, _MARGIN = 16, 22, 10, 8
"""Pixels."""
_TITLE_LENGTH, _ABOUT_LENGTH, _PLACE_LENGTH, _NAME_LENGTH = 42, 52, 40, 28
"""Characters of a line: what 358 pixels hold."""
_LEGEND_WIDTH, _SIGN_WIDTH = 350, 6.6
_NAMED, _NAMED_ON_A_PHONE = 0.05, 0.16
"""The share of the width from which on a span has its name on it."""
_THIN = 0.002
"""A span of a smaller share has a paler edge, which it consists of."""
_OPACITY = 0.7
_PARTS = re.compile(r"[^._/\-]{0,20}[._/\-]*")
"""Of a long word."""
_STEPS = (1, 2, 5, 10)
_TICKS = 5
_COLORS: dict[SpanKind, str] = {
    "call": "#7A828C",
    "wait": "#7A828C",
    "load": "#8E6CC9",
    "op": "#8FA3BF",
    "H2D": "#1F83C6",
    "D2H": "#B8639A",
    "copy": "#8A6D00",
    "compute": "#D1661C",
    "collective": "#158F6B",
    "other": "#A0A7B0",
}
_HATCHED: dict[SpanKind, int] = {"wait": 45, "load": -45}
"""What the host waits in: the slope of the hatching."""
_HOST_IN_WORDS: dict[str, tuple[SpanKind, ...]] = {
    "waits": ("wait",),
    "waits for data": ("load",),
    "in collectives": ("collective",),
    "in calls": ("call",),
    "in operations": ("op",),
}
_LIGHT = "--back:#FFFFFF;--ink:#1B1F24;--pale:#5A636E;--rule:#DDE1E6;--row:#F3F5F7"
_DARK = "--back:#14171B;--ink:#E8EBEE;--pale:#A3ACB6;--rule:#343A42;--row:#1E2329"
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:var(--ink)}"
    ".title{font-size:14px;font-weight:600}.pale{fill:var(--pale)}.end{text-anchor:end}"
    ".mid{text-anchor:middle}.back{fill:var(--back)}.row{fill:var(--row)}"
    f".rule{{stroke:var(--rule)}}.s{{fill-opacity:{_OPACITY};stroke-width:.75}}.t{{stroke-opacity:.4}}.n{{font-size:11px}}"
    ".on{paint-order:stroke;stroke:var(--row);stroke-width:3px}"
    "@media(max-width:600px){.wide{display:none}}"
)


def svg(
    lanes: Sequence[Lane],
    title: str,
    about: Sequence[str] = (),
    *,
    window: tuple[float, float] | None = None,
    since: str = "the first start",
    scheme: Scheme = "auto",
) -> str:
    """The picture. `about` are lines under the title: the hardware, what was observed. All texts
    may come from anywhere. More spans or lanes than fit are merged or left out, and it says so.
    `window` is the time that is shown, from the first start to the last end unless given; it begins
    at what `since` says."""
    shown = lanes[:MAX_LANES]
    ends = window or extent(shown)
    drawn = _pieces(shown, *ends)
    parts, y = _head(title, [*about, *_notes(lanes, shown, drawn)])
    legend, y = _legend(drawn, y + _BETWEEN)
    rows, bottom = _rows(shown, drawn, _Frame(*ends), y + _BETWEEN)
    axis, height = _axis(_Frame(*ends), y + _BETWEEN, bottom, since)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{height}" '
            f'role="img" aria-label="{_safe(title)}">',
            f"<style>{_ground(scheme)}{_STYLE}</style>",
            _hatching(),
            '<rect width="100%" height="100%" class="back"/>',
            f'<svg x="2%" width="96%" height="{height}" overflow="visible">',
            *(*parts, *legend, *axis, *rows),
            "</svg></svg>\n",
        )
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """The time that is shown."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return max(self.end_s - self.start_s, 1e-12)

    def share(self, at_s: float) -> float:
        return (at_s - self.start_s) / self.length_s


@dataclass(frozen=True, slots=True)
class _Merged:
    """A span, or several that were merged."""

    span: Span
    num: int = 1
    share: float = 1.0
    """Of its time in which one of them ran."""


def _pieces(lanes: Sequence[Lane], start_s: float, end_s: float) -> list[list[_Merged]]:
    """What is drawn, lane by lane: every span; where these are too many, those that lie together
    in a short part of the whole time as one, in parts as short as it allows."""
    pieces = [[_Merged(span) for span in lane.spans] for lane in lanes]
    short_s = (end_s - start_s) / _FINEST
    while sum(map(len, pieces)) > MAX_SPANS:
        pieces = [[_piece(run) for run in _runs(lane.spans, short_s)] for lane in lanes]
        short_s *= 2
    return pieces


def _runs(spans: Sequence[Span], short_s: float) -> Iterator[list[Span]]:
    """Neighbours that take no longer than that from the first one's start to the last one's end."""
    run: list[Span] = []
    for span in spans:
        if run and span.end_s - run[0].start_s > short_s:
            yield run
            run = []
        run.append(span)
    if run:
        yield run


def _piece(run: Sequence[Span]) -> _Merged:
    """Its kind is the one that took the most of its time."""
    if len(run) == 1:
        return _Merged(run[0])
    seconds = {kind: busy_s(run, (kind,)) for kind in KINDS}
    start_s, end_s = run[0].start_s, max(span.end_s for span in run)
    whole = Span(
        name=f"{len(run):,} short spans",
        kind=max(seconds, key=lambda kind: seconds[kind]),
        start_s=start_s,
        end_s=end_s,
        nbytes=sum(span.nbytes for span in run),
    )
    return _Merged(whole, len(run), busy_s(run) / max(end_s - start_s, 1e-12))


def _notes(
    lanes: Sequence[Lane], shown: Sequence[Lane], drawn: Sequence[Sequence[_Merged]]
) -> Iterator[str]:
    merged = [piece.num for pieces in drawn for piece in pieces if piece.num > 1]
    if merged:
        yield (
            f"{sum(merged):,} short neighbours are drawn as {number_of(len(merged), 'piece')}, "
            "paler where they leave gaps, each as the kind that took the most of it."
        )
    if len(lanes) > len(shown):
        yield f"Of {len(lanes)} lanes the first {len(shown)} are drawn."
    if not any(drawn):
        yield "Nothing ran."


def _head(title: str, about: Sequence[str]) -> tuple[list[str], int]:
    """The title and the lines under it, wrapped, and where they end."""
    lines = [("title", line) for line in _wrapped(title.replace(",", ", "), _TITLE_LENGTH)]
    lines += [("pale", line) for said in about for line in _wrapped(said, _ABOUT_LENGTH)]
    parts = [
        f'<text y="{_MARGIN + _LINE * number}" class="{kind}">{escape(line)}</text>'
        for number, (kind, line) in enumerate(lines, 1)
    ]
    return parts, _MARGIN + _LINE * len(lines)


def _wrapped(text: str, length: int) -> list[str]:
    """Lines, broken between words; a word that is longer, as a file's name, behind a sign in it."""
    lines = [""]
    for word in one_line(text).split():
        whole = f"{lines[-1]} {word}".lstrip()
        if len(whole) <= length:
            lines[-1] = whole
            continue
        lines.append("")
        for part in [word] if len(word) <= length else _PARTS.findall(word):
            if len(lines[-1]) + len(part) > length:
                lines.append("")
            lines[-1] += part
    return [line for line in lines if line]


def _rows(
    lanes: Sequence[Lane], drawn: Sequence[Sequence[_Merged]], window: _Frame, y: int
) -> tuple[list[str], int]:
    """The lanes from `y` on, and where they end."""
    parts: list[str] = []
    place = ""
    sizes = Counter(lane.place for lane in lanes)
    for lane, pieces in zip(lanes, drawn, strict=True):
        name, whole = lane.name, f"{lane.place}: {lane.name}"
        if lane.place and sizes[lane.place] == 1 and len(whole) <= _NAME_LENGTH:
            name = whole
        elif lane.place != place:
            y += _LINE + _BETWEEN
            said = _safe(_middle_out(lane.place, _PLACE_LENGTH))
            parts.append(f'<text y="{y - 4}" class="title">{said}</text>')
        place = lane.place
        y += _LINE
        parts.append(f'<text y="{y - 4}">{_safe(_middle_out(name, _NAME_LENGTH))}</text>')
        said = _in_words(lane, window)
        parts.append(f'<text x="100%" y="{y - 4}" class="pale end">{said}</text>')
        parts.append(f'<rect y="{y}" width="100%" height="{_BAR}" class="row"/>')
        for piece in pieces:
            parts += _bar(piece, window, y)
        y += _BAR + _BETWEEN
    return parts, y


def _in_words(lane: Lane, window: _Frame) -> str:
    """How much of the time a stream is busy, or the host waits and is in calls."""
    there = {span.kind for span in lane.spans}
    if lane.name != HOST and not there <= {"call", "wait", "op"}:
        return f"busy {busy_s(lane.spans) / window.length_s:.0%}"
    if not there:
        return "no calls" if lane.name == HOST else "idle"
    return ", ".join(
        f"{words} {busy_s(lane.spans, kinds) / window.length_s:.0%}"
        for words, kinds in _HOST_IN_WORDS.items()
        if there.intersection(kinds)
    )


def _bar(piece: _Merged, window: _Frame, y: int) -> Iterator[str]:
    span = piece.span
    x, width = window.share(span.start_s), (span.end_s - span.start_s) / window.length_s
    place = f'x="{x:.4%}" y="{y}" width="{width:.4%}" height="{_BAR}"'
    moved = f", {format_bytes(span.nbytes)}" if span.nbytes else ""
    tip = f"{_safe(span.name, 120)}: {format_seconds(span.end_s - span.start_s)}{moved}"
    thin = " t" if width < _THIN else ""
    paint = f'{_paint(span.kind)} class="s{thin}"'
    if piece.num > 1:
        paint = f'fill="{_fill(span.kind)}" fill-opacity="{_OPACITY * piece.share:.2f}"'
    yield f"<rect {place} {paint}><title>{tip}</title></rect>"
    if width >= _NAMED:
        kind = "n" if width >= _NAMED_ON_A_PHONE else "n wide"
        text = "n on" if span.kind in _HATCHED else "n"
        yield (
            f'<svg {place} class="{kind}" pointer-events="none">'
            f'<text x="4" y="{_BAR - 7}" class="{text}">{_safe(span.name, 60)}</text></svg>'
        )


def _fill(kind: SpanKind) -> str:
    return f"url(#{kind})" if kind in _HATCHED else _COLORS[kind]


def _paint(kind: SpanKind) -> str:
    return f'fill="{_fill(kind)}" stroke="{_COLORS[kind]}"'


def _hatching() -> str:
    patterns = (
        f'<pattern id="{kind}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate({slope})">'
        f'<rect width="2" height="6" fill="{_COLORS[kind]}"/></pattern>'
        for kind, slope in _HATCHED.items()
    )
    return f"<defs>{''.join(patterns)}</defs>"


def _legend(drawn: Sequence[Sequence[_Merged]], y: int) -> tuple[list[str], int]:
    """The kinds that are there, in lines that a telephone holds."""
    there = {piece.span.kind for pieces in drawn for piece in pieces}
    parts: list[str] = []
    x = 0.0
    for kind, words in KINDS.items():
        if kind not in there:
            continue
        width = 16 + 20 + _SIGN_WIDTH * len(words)
        if x and x + width > _LEGEND_WIDTH:
            x, y = 0.0, y + _LINE + 2
        parts.append(
            f'<rect x="{x:g}" y="{y}" width="12" height="12" {_paint(kind)} class="s"/>'
            f'<text x="{x + 16:g}" y="{y + 10}">{words}</text>'
        )
        x += width
    return parts, y + _LINE


def _axis(window: _Frame, top: int, bottom: int, since: str) -> tuple[list[str], int]:
    """Lines at round times, and their labels with the unit below the lanes."""
    parts = []
    for at_s in _ticks(window.length_s):
        x = f"{at_s / window.length_s:.4%}"
        parts.append(f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" class="rule"/>')
        place = "" if at_s == 0 else " mid"
        said = format_seconds(at_s) if at_s else "0"
        parts.append(f'<text x="{x}" y="{bottom + 14}" class="pale{place}">{said}</text>')
    y = bottom + 14 + _LINE
    parts.append(f'<text y="{y}" class="pale">time since {_safe(since)}</text>')
    return parts, y + _MARGIN // 2


def _ticks(length_s: float) -> list[float]:
    """0 and round times after it, not close to the right end, where a label has no room."""
    power = 10.0**-12
    while power * 10 <= length_s / _TICKS:
        power *= 10
    step_s = next(step * power for step in _STEPS if step * power * _TICKS >= length_s * 0.9)
    return [n * step_s for n in range(_TICKS + 1) if n * step_s <= 0.96 * length_s]


def _ground(scheme: Scheme) -> str:
    if scheme != "auto":
        return f":root{{{_DARK if scheme == 'dark' else _LIGHT}}}"
    return f":root{{{_LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}"


def _middle_out(text: str, length: int) -> str:
    """The start and the end, which tell names of files and of ranks apart."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}\u2026{text[half - length + 1 :]}"


def _safe(text: str, length: int = 200) -> str:
    """Text from anywhere, for an element or an attribute."""
    said = one_line(text)
    return escape(said if len(said) <= length else f"{said[: length - 1]}\u2026")
