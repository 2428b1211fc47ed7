"""The left rail: where one can go from every page, in its order, with the letter that goes there after ``g``."""

from __future__ import annotations

from typing import NamedTuple


class Stop(NamedTuple):
    """One entry; ``icon`` is the path of its 24 × 24 drawing."""

    id: str
    title: str
    href: str
    letter: str
    icon: str


RAIL = (
    Stop("overview", "Overview", "/", "o", "M3 12h4l3-7 4 14 3-7h4"),
    Stop("events", "Events", "/events", "e", "M4 6h16M4 12h16M4 18h10"),
    Stop("sources", "Sources", "/sources", "s", "M12 4v10M7 10l5 5 5-5M5 20h14"),
    Stop("destinations", "Destinations", "/destinations", "d", "M4 12h14M13 6l6 6-6 6"),
    Stop("catalog", "Catalog", "/catalog", "c", "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z"),
    Stop(
        "audiences",
        "Audiences",
        "/audiences",
        "a",
        "M4 19a5 5 0 0 1 10 0M6.5 9a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M15 7a2.5 2.5 0 0 1 0 5M17 15a5 5 0 0 1 3 4",
    ),
    Stop("traits", "Traits", "/traits", "r", "M4 12V5h7l9 9-7 7zM8 9h.01"),
    Stop("people", "People", "/people", "p", "M12 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4 21a8 8 0 0 1 16 0"),
    Stop("deletion", "Deletion", "/deletion-requests", "x", "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13"),
    Stop("usage", "Usage", "/usage", "u", "M5 20V10M12 20V4M19 20v-7"),
    Stop("settings", "Settings", "/settings", "t", "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4"),
)
