"""Hold the ids of one person, each with its kind.

An id that was given counts as a user id and as an anonymous id. One that an event named as its ``anonymousId`` is an
anonymous id alone: whoever has a write key can name any id there, and clients send one constant to everybody, so it
says nothing of a user who has that id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

Identities = dict[str, bool]
"""By id whether it counts as a user id too."""

_BEHIND_BOTH = ""
"""In the text form it stands between the ids of both kinds and those that are anonymous alone. Nobody's id is empty, so
versions that know one list of ids find nobody by it."""

_decode = msgspec.json.Decoder(tuple[str, ...]).decode


def given(ids: Iterable[str]) -> Identities:
    """Return ids that count as both kinds."""
    return dict.fromkeys(ids, True)


def add(identities: Identities, others: Mapping[str, bool]) -> None:
    """Add ids that were found; one that counted as a user id goes on to do so."""
    for id, is_user in others.items():
        identities[id] = is_user or identities.get(id, False)


def to_text(identities: Mapping[str, bool]) -> str:
    """Write ids as they stand in the database: a list, as it was before there were kinds, and behind an empty text
    those that are anonymous alone."""
    both = [id for id, is_user in identities.items() if is_user]
    anonymous = [id for id, is_user in identities.items() if not is_user]
    return msgspec.json.encode([*both, _BEHIND_BOTH, *anonymous] if anonymous else both).decode()


def from_text(text: str) -> Identities:
    """Read ids again."""
    ids = _decode(text)
    both = ids.index(_BEHIND_BOTH) if _BEHIND_BOTH in ids else len(ids)
    return {id: place < both for place, id in enumerate(ids) if id != _BEHIND_BOTH}
