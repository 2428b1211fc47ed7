"""Charts before they are drawn."""

from __future__ import annotations

from hookline.web.chart_view import POINTS_MAX, Line, chart

RATE = Line("accepted", "good")


def test_few_points_stay_as_they_are() -> None:
    """One row per time, with a gap where nothing is known."""
    view = chart("a", "Accepted", "events/s", [0, 10], [(RATE, [1.5, None]), (Line("failed", "dead"), [0, 2])])
    assert [line.name for line in view.lines] == ["accepted", "failed"]
    assert [(row.at, row.values) for row in view.rows] == [
        ("1970-01-01T00:00:00Z", [1.5, 0]),
        ("1970-01-01T00:00:10Z", [None, 2]),
    ]


def test_many_points_are_joined() -> None:
    """Neighbours become their mean, or what is asked for; a gap joins nothing, and a whole gap stays one."""
    times = list(range(POINTS_MAX * 2))
    values = [None, None, 4.0, None, *range(4, POINTS_MAX * 2)]
    view = chart("a", "A", "", times, [(RATE, values), (RATE, values)])
    assert len(view.rows) == POINTS_MAX
    assert [row.values[0] for row in view.rows[:4]] == [None, 4.0, 4.5, 6.5]
    assert chart("a", "A", "", times, [(RATE, values)], join=max).rows[2].values == [5]


def test_no_points_are_an_empty_chart() -> None:
    """Before anything was measured."""
    assert chart("a", "A", "", [], [(RATE, [])]).rows == []
