"""Say in a few words why an attempt failed, without what differs from one event to the next.

Two failures have one cause when they ended alike (outcome and HTTP status) and the receiver said the same, but for
numbers, ids, addresses, times, and quoted values. Those become ``…``: they would make a cause of every event, and they
may name a person. Everything here is bounded: a receiver may answer anything.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from hookline.events import untyped

MESSAGE_CHARACTERS_MAX = 200
READ_CHARACTERS_MAX = 500
"""Of what was taken from an answer. A cause shows in its first lines, and what follows would cost time for each."""
PARTS_MAX = 6
DEPTH_MAX = 4
CAUSES_REMEMBERED = 256
"""Texts whose cause deliver need not find again: most failures in a row say the same."""
GONE = "…"

_TELLS = frozenset(
    ("message", "msg", "error", "errors", "detail", "details", "title", "reason", "code", "description")
) | {"error_description", "errormessage", "error_message", "errorcode", "error_code", "fault", "exception"}
"""Fields of JSON answers that say what was wrong, in lower case."""
_PLACES = frozenset(("loc", "field", "path", "pointer", "param", "parameter", "property", "attribute"))
"""Fields that say where."""
_FIELDS = frozenset(
    ("type", "userId", "user_id", "anonymousId", "anonymous_id", "messageId", "message_id", "timestamp", "event")
) | {"name", "category", "groupId", "group_id", "previousId", "properties", "traits", "context", "version", "id"}
_FIELDS |= {"integrations", "receivedAt", "sentAt", "email", "phone", "body", "header", "headers", "url", "signature"}
_FIELDS |= {"X-Signature", "Content-Type", "Authorization"}
"""Names that are shown although they are quoted: they say what is wrong and name nobody."""
_ECHOED = frozenset(("userId", "anonymousId", "messageId", "properties", "traits", "context"))
_FIELD_PATHS = ("properties.", "traits.", "context.", "properties/", "traits/")
_WITH_DIGITS = frozenset(
    (
        "utf8",
        "utf-8",
        "oauth2",
        "http2",
        "ipv4",
        "ipv6",
        "base64",
        "sha1",
        "sha256",
        "md5",
        "iso8601",
        "rfc3339",
        "x509",
    )
)

_TITLE = re.compile(r"<(title|h1)\b[^<>]{0,200}>([^<]{1,300})", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,500}>")
_BREAK = r"""\s"'<>`“”‘’«»,;:&|=()\[\]{}"""
_PIECE = re.compile(
    r"""https?://[^\s"'<>`]+"""
    r"""|"[^"\n]{0,300}"|`[^`\n]{0,300}`"""
    # Up to the next quote of either direction: each of many that nothing closes would look on for 300 characters.
    r"""|“[^“”\n]{0,300}”|‘[^‘’\n]{0,300}’|«[^«»\n]{0,300}»"""
    r"""|(?<!\w)'[^'\n]{1,300}'(?!\w)"""
    r"""|=[^\s"'<>`,;&|()\[\]{}]+"""
    # Only where a word begins: tried inside it again, a long one would cost the square of its length.
    rf"""|(?<![^{_BREAK}])(?:[^{_BREAK}]*[\d@][^{_BREAK}]*|[a-fA-F-]{{12,}}(?![^{_BREAK}]))"""
)
_SEVERAL = re.compile(rf"{GONE}(?:[\s,;:/.&|-]{{0,4}}{GONE})+")
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and those that turn the direction of what follows."""
_ONES = str.maketrans("023456789", "1" * 9)


def cause_of(outcome: str, http_status: int | None, error: str) -> int:
    """Return the number of the cause: the same for failures that are alike, and the same tomorrow."""
    # Which digits they are never matters, but for those of an escaped character. Made alike first, most texts are found
    # among those that are remembered. Beyond ASCII that would cost more than it saves.
    if error.isascii() and "\\u" not in error:
        error = error.translate(_ONES)
    return _cause_of(outcome, http_status, error)


@lru_cache(CAUSES_REMEMBERED)
def _cause_of(outcome: str, http_status: int | None, error: str) -> int:
    text = f"{outcome}\0{http_status or ''}\0{words_of(error).casefold()}"
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)


def words_of(error: str, http_status: int | None = None) -> str:
    """Return what failures of one cause have in common of their texts; empty when they say nothing."""
    text = _said(error.strip())[:READ_CHARACTERS_MAX]
    if not text.isprintable():
        text = _UNSHOWN.sub(" ", text)
    status = "" if http_status is None else str(http_status)
    text = " ".join(_PIECE.sub(lambda found: _kept(found[0], status), text).split())
    if text.count(GONE) > 1:
        text = _SEVERAL.sub(GONE, text)
    return text if len(text) <= MESSAGE_CHARACTERS_MAX else text[: MESSAGE_CHARACTERS_MAX - 1].rstrip() + GONE


def _said(text: str) -> str:
    """Return the part of an answer that is written for people."""
    if text[:1] in ("{", "["):
        try:
            parts: list[str] = []
            _gather(untyped.decode(text), "", parts, 0)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return text
        return "; ".join(parts)
    if text[:1] == "<":
        found = list(dict.fromkeys(" ".join(each[1].split()) for each in _TITLE.findall(text)))
        return ": ".join(found) or _TAG.sub(" ", text)
    return text


def _gather(value: Any, place: str, parts: list[str], depth: int) -> None:
    """Collect the sentences of a decoded answer, each once."""
    if len(parts) >= PARTS_MAX or depth > DEPTH_MAX:
        return
    if isinstance(value, str):
        said = f"{place}: {value}" if place and value else value
        if said and said not in parts:
            parts.append(said)
    elif isinstance(value, list):
        for each in value[:PARTS_MAX]:
            _gather(each, place, parts, depth + 1)
    elif isinstance(value, dict):
        where = next((_path(each) for name, each in value.items() if name.lower() in _PLACES), "") or place
        telling = {name: each for name, each in value.items() if name.lower() in _TELLS}
        if not (telling or depth or _ECHOED.isdisjoint(value)):
            return  # the event, sent back: that says nothing of a cause, and names people
        for name, each in list((telling or value).items())[:PARTS_MAX]:
            _gather(each, where if telling else name, parts, depth + 1)


def _path(value: Any) -> str:
    steps = value if isinstance(value, list) else [value]
    return ".".join(each for each in steps[:PARTS_MAX] if isinstance(each, str))


def _kept(piece: str, status: str) -> str:
    first = piece[0]
    if first in "\"'`“‘«" and len(piece) > 1:
        inner = piece[1:-1]
        named = inner in _FIELDS or (inner.startswith(_FIELD_PATHS) and not any(map(str.isdigit, inner)))
        return piece if named else GONE
    if first == "=" or "://" in piece:
        return "=" + GONE if first == "=" else GONE
    core = piece.rstrip(".!?-")
    return piece if core == status or core.lower() in _WITH_DIGITS else GONE + piece[len(core) :]
