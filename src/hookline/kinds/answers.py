"""What an answer means: whether it accepts, whose fault it is if not, and which items of a batch failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from hookline.events import untyped
from hookline.expressions.compile import Condition, compile_condition
from hookline.expressions.parse import parse
from hookline.expressions.tree import paths_in
from hookline.kinds.model import Items, Json, Success

ANSWER_FIELDS = ("status", "body", "text", "headers")
"""What expressions over an answer may begin with."""
ERROR_CHARACTERS_MAX = 500
TEXT_CHARACTERS_MAX = 64 * 1024
PARTS_MAX = 44_000
PARTS_PER_EVENT = 1_400
"""Of an answer in JSON; one with more is not decoded, which takes 0.2 µs for each on the event loop. As many as 64 KB
can have, and 2 KB for each event; what APIs have to say of an event, or its text, has a tenth of it."""
EPOCH_FROM_SECONDS = 1_000_000_000
"""A greater number in a rate-limit header is a time, a smaller one a wait."""
NAMED_MAX = 100_000
"""Items that failed that are read of one answer: as many for each item of a large batch as anybody has to say."""
ANY_KEY = "*"
_STATUSES = range(100, 1_000)
"""Any other number that an item has for its status says that it failed, and is not kept: it may be too large to be."""
_CUT: dict[str, Json] = {}
"""Stands for a body that begins as JSON and is none: one that was cut, or that has too many parts."""


class Verdict(NamedTuple):
    """Say what became of an item: ``accepted``, or whether it is tried again and the words of the receiver.

    ``of_event``: the fault is the event's, and says nothing against the receiver. ``remark``: what a sink says of an
    event that it accepted, such as how much it erased; people read it with the attempt. ``of_batch``: the words are
    about several events, and may name the person of another one.
    """

    accepted: bool
    retry: bool = False
    of_event: bool = False
    error: str = ""
    status: int | None = None
    remark: str = ""
    of_batch: bool = False


ACCEPTED = Verdict(True)


class Judge:
    """Reads answers by the rules of one request; raise ExpressionError for what was never checked."""

    def __init__(self, success: Success) -> None:
        self._accepts = _condition(success.condition)
        self._refused = _condition(success.refused)
        self._retry = _condition(success.retry)
        self._items = success.items
        self._others_retry = success.others == "retry"
        texts = [text for text in (success.condition, success.refused, success.retry) if text is not None]
        asked = {path[0] for text in texts for path in paths_in(parse(text))}
        asked |= {rule.path.partition(".")[0] for rule in success.items}
        self._asks_body, self._asks_headers = "body" in asked, "headers" in asked

    def whole(self, status: int, head: str, body: bytes) -> Verdict:
        """Return what an answer to a request by itself means."""
        return self._verdict(self._fields(status, head, body, 1), status, body)

    def each(self, status: int, head: str, body: bytes, count: int) -> list[Verdict]:
        """Return what became of each of ``count`` items."""
        fields = self._fields(status, head, body, count)
        whole = self._verdict(fields, status, body)
        if count > 1 and not whole.accepted:
            whole = whole._replace(of_batch=True)
        if not self._items:
            return [whole] * count
        named: dict[int, Verdict] = {}
        found = False
        listed = count
        for rule in self._items:
            entries = _at(fields, rule.path)
            if isinstance(entries, dict | list):
                found = True
                if rule.entries == "each":
                    listed = min(listed, len(entries))
                for index, verdict in _entries(rule, entries, status, count):
                    if verdict.accepted is False or index not in named:
                        named[index] = verdict
        if not found:
            if whole.accepted and fields["body"] is _CUT:
                words = "the answer ends before it says what became of each event"
                whole = Verdict(False, retry=True, error=words, status=status)
            return [whole] * count
        if whole.accepted:
            others = ACCEPTED
        elif self._others_retry or whole.retry:  # what fails as a whole has accepted nobody
            others = Verdict(False, retry=True, of_event=True, error="refused with others of its batch", status=status)
        else:
            others = ACCEPTED
        if not whole.accepted and not any(not each.accepted for each in named.values()):
            return [whole] * count  # it names nobody: the answer is about all
        verdicts = [named.get(index, others) for index in range(count)]
        if whole.accepted and listed < count:
            words = "the answer has fewer entries than the batch has events, and none for this one"
            unlisted = Verdict(False, retry=True, error=words, status=status)
            verdicts[listed:] = [named.get(index, unlisted) for index in range(listed, count)]
        return verdicts

    def _fields(self, status: int, head: str, body: bytes, count: int) -> dict[str, Json]:
        fields: dict[str, Json] = {"status": status}
        try:
            if has_too_many_parts(body, count):
                fields["body"] = _CUT
            else:
                fields["body"] = untyped.decode(body) if body and self._asks_body else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            fields["body"] = _CUT if body.lstrip()[:1] in (b"{", b"[") else {}
        fields["text"] = body[:TEXT_CHARACTERS_MAX].decode("utf-8", "replace")
        fields["headers"] = headers_of(head) if self._asks_headers else {}
        return fields

    def _verdict(self, fields: Mapping[str, Json], status: int, body: bytes) -> Verdict:
        if self._accepts(fields) if self._accepts is not None else 200 <= status < 300:
            return ACCEPTED
        error = body[:ERROR_CHARACTERS_MAX].decode("utf-8", "replace")
        if self._refused is not None and self._refused(fields):
            return Verdict(False, of_event=True, error=error, status=status)
        if self._retry is not None and self._retry(fields):
            return Verdict(False, retry=True, error=error, status=status)
        if 200 <= status < 300:  # an answer that reads like success and is none: about the event, as far as known
            return Verdict(False, of_event=True, error=error, status=status)
        return Verdict(False, retry=status in (408, 429) or status >= 500, error=error, status=status)


def has_too_many_parts(body: bytes, count: int) -> bool:
    """Return whether an answer about so many events would take too long to decode; commas and brackets are counted,
    those in strings too."""
    parts_max = max(PARTS_MAX, PARTS_PER_EVENT * count)
    return len(body) > parts_max and sum(map(body.count, (b",", b"[", b"{"))) > parts_max


def headers_of(head: str) -> dict[str, str]:
    """Return the headers of an answer's head by their names in small letters."""
    lines = (line.partition(":") for line in head.splitlines()[1:])
    return {name.strip().lower(): value.strip() for name, _, value in lines if name}


def asked_wait_seconds(head: str, now: Callable[[], float] = time.time) -> int | None:
    """Return how long a throttled sender is asked to wait by the headers that APIs use, None where none says.

    ``Retry-After`` (seconds or a date), else ``RateLimit-Reset`` (a wait), else ``X-RateLimit-Reset`` or
    ``X-Rate-Limit-Reset`` (a wait, or a time in seconds or milliseconds of the epoch).
    """
    headers = headers_of(head)
    for name in ("retry-after", "ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset"):
        text = headers.get(name, "")[:32]
        if text.replace(".", "", 1).isdigit() and text.isascii():
            seconds = float(text)
            if seconds >= EPOCH_FROM_SECONDS * 1_000:
                seconds /= 1_000
            return max(0, round(seconds - now())) if seconds >= EPOCH_FROM_SECONDS else round(seconds)
        if text and name == "retry-after":
            try:
                at = parsedate_to_datetime(text)
                at = at if at.tzinfo else at.replace(tzinfo=UTC)  # the old form names no zone
                return max(0, round(at.timestamp() - now()))
            except (ValueError, TypeError, OverflowError):
                continue
    return None


def _condition(text: str | None) -> Condition | None:
    return None if text is None else compile_condition(parse(text, ANSWER_FIELDS))


def _entries(rule: Items, entries: Json, status: int, count: int) -> Iterator[tuple[int, Verdict]]:
    """Yield what an answer says of ``count`` items; a receiver may list millions of others."""
    if rule.entries == "named":
        # {"field": [3, 5]} names items as [3, 5] does, and says what is wrong with them
        named = entries.items() if isinstance(entries, dict) else [("", entries)]
        pairs = ((name, entry) for name, each in named for entry in (each if isinstance(each, list) else [each]))
        last: dict[int, tuple[str, Json]] = {}  # what is said of an item last; it may be named again and again
        for name, entry in islice(pairs, NAMED_MAX):
            index = entry if rule.index is None else _at(entry, rule.index)
            if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < count:
                last[index] = name, entry
        for index, (name, entry) in last.items():
            # Cut first: a name may have megabytes, and be that of every item.
            words = ": ".join([rule.path.rpartition(".")[2], *([name[:ERROR_CHARACTERS_MAX]] if name else [])])
            # A name stands for every item in its list.
            is_shared = bool(name) and isinstance(entry, int) and len(last) > 1
            yield index, _failed(rule, entry, status, words)._replace(of_batch=is_shared)
        return
    listed: Iterable[Any] = entries.values() if isinstance(entries, dict) else entries
    for index, entry in enumerate(islice(listed, count)):
        own = _at(entry, rule.status) if rule.status is not None else None
        if isinstance(own, int):
            failed = not (200 <= own < 300 or own in rule.accepted)
        else:
            failed = bool(rule.error and _at(entry, rule.error))
        yield index, _failed(rule, entry, status) if failed else ACCEPTED


def _failed(rule: Items, entry: Json, status: int, words: str = "") -> Verdict:
    """Return the verdict of an item; ``words`` are said where its entry is nothing but its number."""
    said = words if words and isinstance(entry, int) else _at(entry, rule.error) if rule.error is not None else None
    error = said if isinstance(said, str) else msgspec.json.encode(entry if said is None else said).decode()
    own = _at(entry, rule.status) if rule.status is not None else None
    code = own if isinstance(own, int) and own in _STATUSES else status
    retry = rule.retry or (isinstance(own, int) and (own in (408, 429) or own >= 500))
    return Verdict(False, retry=retry, of_event=not retry, error=error[:ERROR_CHARACTERS_MAX], status=code)


def _at(value: Json, path: str) -> Json:
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = next(iter(value.values()), None) if part == ANY_KEY and part not in value else value.get(part)
        elif isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return value


PLAIN_JUDGE = Judge(Success())
"""For requests without rules of their own."""
