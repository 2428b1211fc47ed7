"""The durations and instants of definitions, as milliseconds."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import groupby

from hookline.connections.definitions.model import Audience, Condition, Duration, Instants
from hookline.events.timestamps import parse
from hookline.settings import DAY_SECONDS, parse_duration

WITHIN_SECONDS_MAX = 3_650 * DAY_SECONDS
SYNC_SECONDS_MAX = 30 * DAY_SECONDS
SECONDS_MIN = 1


def window_ms(text: Duration) -> int:
    """Return the length of a sliding window; raise ValueError with what to write."""
    return _milliseconds(text, WITHIN_SECONDS_MAX, "30d, at most 3650d")


def sync_ms(text: Duration) -> int:
    """Return the time from one sync to the next; raise ValueError with what to write."""
    return _milliseconds(text, SYNC_SECONDS_MAX, "2h or 30s, at most 30d")


def instant_ms(text: str) -> int:
    """Return a fixed moment; raise ValueError with what to write. Without a zone it is UTC."""
    # Digits alone would be seconds since 1970: nobody means that by 2026.
    ms = parse(text) if text[4:5] == "-" else None
    if ms is None:
        raise ValueError("write a moment such as 2026-11-20 or 2026-11-20T07:00:00Z")
    return ms


def instants_ms(between: Instants) -> tuple[int, int]:
    """Return the first moment and the first one after, of a fixed stretch of time; raise ValueError with what
    to write."""
    begins, ends = map(instant_ms, between)
    if begins >= ends:
        raise ValueError("the first moment must be before the second, which does not belong to it any more")
    return begins, ends


def _milliseconds(text: Duration, seconds_max: float, example: str) -> int:
    try:
        seconds: float = parse_duration(text)
    except (ValueError, OverflowError):
        seconds = 0
    if not SECONDS_MIN <= seconds <= seconds_max:
        raise ValueError(f"write a time of at least one second, such as {example}")
    return round(seconds * 1000)


_APOSTROPHES = "'’"


def trait_name(name: str) -> str:
    """``Big Spenders``, ``bigSpenders`` and ``Big-Spenders!`` are all ``big_spenders``; empty without letter and digit.

    Letters of every script stay, with the marks that belong to them.
    """
    text = unicodedata.normalize("NFC", name)
    text = "".join(_spaced(text, index) for index in range(len(text)))
    words = ("".join(letters) for belongs, letters in groupby(text.lower(), _belongs_to_word) if belongs)
    return unicodedata.normalize("NFC", "_".join(words))


def _spaced(text: str, index: int) -> str:
    """Return one character, with a space before it where a word begins without one; apostrophes within words go."""
    letter, before, after = text[index], text[index - 1 : index], text[index + 1 : index + 2]
    if letter in _APOSTROPHES and before.isalnum() and after.isalnum():
        return ""
    if letter.isupper() and (before.islower() or (before.isalnum() and after.islower())):
        return " " + letter
    return letter


def _belongs_to_word(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


def conditions_of(audience: Audience) -> Iterator[tuple[str, Condition]]:
    """Yield every condition of an audience with its path, outer ones first."""
    waiting = [("condition", audience.condition)]
    while waiting:
        path, condition = waiting.pop()
        yield path, condition
        waiting += reversed(list(terms_of(path, condition)))


def terms_of(path: str, condition: Condition) -> Iterator[tuple[str, Condition]]:
    """Yield what ``all``, ``any`` or ``not`` holds, with paths."""
    for key, terms in (("all", condition.all), ("any", condition.any)):
        for index, term in enumerate(terms or ()):
            yield f"{path}.{key}[{index}]", term
    if condition.not_ is not None:
        yield f"{path}.not", condition.not_


def dotted(path: str, inner: str) -> str:
    """Return the path of something inside of what is at ``path``."""
    return f"{path}.{inner}" if path and inner else path or inner
