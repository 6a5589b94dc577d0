"""Charts as small SVG files: bars in panels, and a grid of counts. Readable on white and on black."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 780
LABEL = 128
ROW = 22
HEAD = 34
GAP = 26
DASH = "\N{EN DASH}"

STYLE = """
svg { font: 13px system-ui, sans-serif }
text { fill: #1f2328 } .quiet { fill: #59636e } .bold { font-weight: 600 }
.ours { fill: #1a7f64 } .theirs { fill: #9aa4af } .wrong { fill: #d1593b } .right { fill: #d9ede5 }
.none { fill: #eceef0 } .on { fill: #ffffff } .line { stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .quiet { fill: #9198a1 } .ours { fill: #3fb68b } .theirs { fill: #6e7681 }
  .wrong { fill: #e0714f } .right { fill: #1d3a31 } .none { fill: #262b31 } .on { fill: #ffffff }
  .line { stroke: #3d444d }
}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A value, how it is written, and whose it is. None: there is none, and the text says why."""

    label: str
    value: float | None
    text: str
    ours: bool
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    bars: Sequence[Bar]


def bars(title: str, panels: Sequence[Panel], *, columns: int = 1, log: bool = False) -> str:
    """Draw panels of horizontal bars; each has a scale of its own, from nought or in decades."""
    width = (WIDTH - GAP * (columns - 1)) / columns
    parts, top, deepest = list[str](), float(HEAD), 0.0
    for at, panel in enumerate(panels):
        column = at % columns
        if not column:
            top += deepest
        x = column * (width + GAP)
        parts.append(_text(x, top + 16, panel.title, "bold"))
        scale = _scale([bar.value for bar in panel.bars if bar.value is not None], log=log)
        room = width - LABEL - 84
        for row, bar in enumerate(panel.bars):
            y = top + 26 + row * ROW
            parts.append(_text(x, y + 14, bar.label, "bold" if bar.ours else ""))
            length = 0.0 if bar.value is None else scale(bar.value) * room
            kind = "wrong" if bar.wrong else "ours" if bar.ours else "theirs"
            if bar.value is not None:
                parts.append(_box(x + LABEL, y + 3, max(length, 2.0), ROW - 8, kind))
            parts.append(_text(x + LABEL + max(length, 2.0) + 6, y + 14, bar.text, "quiet"))
        deepest = max(deepest if column else 0.0, 26.0 + len(panel.bars) * ROW + GAP / 2)
    return _drawing(title, parts, top + deepest)


def grid(
    title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[int | None]]]
) -> str:
    """Draw counts of what is wrong: nought is calm, anything else is not, None was not to be had."""
    label = 190
    width = (WIDTH - label) / len(columns)
    parts = [
        _text(label + width * (at + 0.5), HEAD + 14 + line * 16, part, "bold", middle=True)
        for at, name in enumerate(columns)
        # A long name stands on two lines.
        for line, part in enumerate(name.split(", "))
    ]
    top = HEAD + 40
    for down, (name, counts) in enumerate(rows):
        y = top + down * 28
        parts.append(_text(0, y + 17, name))
        for at, count in enumerate(counts):
            x = label + width * at
            kind = "none" if count is None else "wrong" if count else "right"
            parts.append(_box(x + 2, y + 1, width - 4, 25, kind))
            shown = DASH if count is None else f"{count}"
            middle = x + width / 2
            parts.append(_text(middle, y + 18, shown, "on" if count else "quiet", middle=True))
    return _drawing(title, parts, top + len(rows) * 28 + 6)


def _scale(values: Sequence[float], *, log: bool) -> "Scale":
    return Scale(max(values, default=1.0) or 1.0, log=log)


class Scale:
    def __init__(self, most: float, *, log: bool) -> None:
        self._most = most
        self._log = log

    def __call__(self, value: float) -> float:
        if not self._log:
            return value / self._most
        # One is a third of the way to ten, so that nought, one and ten differ.
        return math.log10(1 + value) / math.log10(1 + self._most)


def _text(x: float, y: float, text: str, kind: str = "", *, middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    chosen = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{chosen}{anchor}>{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} rx="2" class="{kind}"/>'


def _drawing(title: str, parts: Sequence[str], height: float) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    named = f"<title>{escape(title)}</title>\n<style>{STYLE}</style>"
    return "\n".join([head, named, _text(0, 18, title, "bold"), *parts, "</svg>"]) + "\n"
