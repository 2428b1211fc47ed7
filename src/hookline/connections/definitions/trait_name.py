"""The name of the trait that an audience or computed trait is sent as: snake_case of its name (SPEC 2.4)."""

from __future__ import annotations

import unicodedata
from itertools import groupby

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
