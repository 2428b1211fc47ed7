"""A chart of a scenario as SVG: events acknowledged and arrived in each second, and when something was done."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT = 960, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 34, 32
ANSWERED, ARRIVED, INJECTED = "#2563eb", "#d97706", "#9ca3af"


def chart(title: str, answered: Sequence[int], arrived: Sequence[int], injected: Sequence[float]) -> str:
    """The picture; numbers are events by second, ``injected`` seconds."""
    seconds = max(len(answered), len(arrived), 2)
    most = max([*answered, *arrived, 1])

    def x(second: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * second / (seconds - 1)

    def y(events: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - events / most)

    def line(counts: Sequence[int], colour: str) -> str:
        points = " ".join(f"{x(second):.1f},{y(count):.1f}" for second, count in enumerate(counts))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>'

    marks = [f'<path d="M{x(at):.1f} {TOP}V{y(0):.1f}" stroke="{INJECTED}" stroke-dasharray="2 3"/>' for at in injected]
    step = _step(most)
    levels = [_text(LEFT - 6, y(level) + 4, f"{level:,}", "end") for level in range(0, most + 1, step)]
    times = [_text(x(at), HEIGHT - 12, f"{at} s", "middle") for at in range(0, seconds, _step(seconds))]
    legend = [
        _text(LEFT, 16, title, "start"),
        _text(WIDTH - RIGHT - 300, 16, "acknowledged/s", "start", ANSWERED),
        _text(WIDTH - RIGHT - 190, 16, "arrived/s", "start", ARRIVED),
        _text(WIDTH - RIGHT - 115, 16, "dashed: injected", "start", "#6b7280"),
    ]
    axis = f'<line x1="{LEFT}" y1="{y(0):.1f}" x2="{WIDTH - RIGHT}" y2="{y(0):.1f}" stroke="#374151"/>'
    lines = [axis, *marks, line(arrived, ARRIVED), line(answered, ANSWERED), *levels, *times, *legend]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    return "\n".join([head, background, *lines, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#374151") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _step(most: int) -> int:
    """The round number that leads to between three and seven marks."""
    unit = 1
    while most / unit > 70:
        unit *= 10
    return next(unit * factor for factor in (1, 2, 5, 10) if most / (unit * factor) <= 7)
