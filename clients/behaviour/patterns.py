"""Compares what came with what a case wants: patterns, names that are bound, and the form of an event.

The first difference is raised as ``Difference``, with its place in the document.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

CLOCK_SECONDS = 0.005
"""Milliseconds are cut or rounded, so a time may seem a little earlier or later than it was."""
SHOWN_CHARACTERS_MAX = 600
MESSAGE_ID_CHARACTERS_MAX = 512

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z").fullmatch
_REPEATED = re.compile(r"\{(.)\*(\d+)\}")
_ABSENT = object()


class Difference(Exception):
    """What came is not what was wanted."""

    def __init__(self, place: str, wanted: object, came: object) -> None:
        super().__init__(f"at      {place}\nwanted  {shown(wanted)}\ncame    {shown(came)}")


class Matcher:
    """Compares within one case: names bound at their first use keep their value until its end."""

    def __init__(self) -> None:
        self.bound: dict[str, Any] = {}
        self._began = time.time()

    def match(self, wanted: Any, came: Any, place: str, is_whole: bool = True) -> None:
        """Compare by patterns. If not ``is_whole``, other fields of the outermost object do not matter."""
        if isinstance(wanted, str) and wanted.startswith("$"):
            self._match_pattern(wanted, came, place)
        elif isinstance(wanted, dict):
            rule = next((name for name in wanted if name.startswith("$")), None)
            if rule is None:
                self._match_object(wanted, came, place, is_whole)
            else:
                self._match_rule(rule, wanted, came, place, self.match)
        elif isinstance(wanted, list):
            self._match_list(wanted, came, place, self.match)
        elif isinstance(wanted, bool) or isinstance(came, bool) or wanted is None or came is None:
            _require(wanted is came, place, wanted, came)
        else:
            _require(came == wanted, place, wanted, came)

    def match_body(self, wanted: Any, came: Any, place: str) -> None:
        """Compare the body of a request: what stands in ``batch`` is an event."""
        if not isinstance(wanted, dict) or not isinstance(came, dict) or "batch" not in wanted:
            self.match(wanted, came, place)
            return
        self.match_events(wanted["batch"], came.get("batch", _ABSENT), f"{place}.batch")
        rest = [{name: value for name, value in whole.items() if name != "batch"} for whole in (wanted, came)]
        self.match(*rest, place)

    def match_events(self, wanted: Any, came: Any, place: str) -> None:
        """Compare a list of events."""
        if isinstance(wanted, list):
            self._match_list(wanted, came, place, self.match_event)
        elif isinstance(wanted, dict):
            rule = next((name for name in wanted if name.startswith("$")), "")
            self._match_rule(rule, wanted, came, place, self.match_event)
        else:
            self.match(wanted, came, place)

    def match_event(self, wanted: Any, came: Any, place: str) -> None:
        """Compare an event. Its ``context.library`` must be there; it is the library's own unless the case names it."""
        if not isinstance(wanted, dict) or any(name.startswith("$") for name in wanted) or not isinstance(came, dict):
            self.match(wanted, came, place)
            return
        wanted_context = wanted.get("context", {})
        rest = {name: value for name, value in wanted.items() if name != "context"}
        self.match(rest, {name: value for name, value in came.items() if name != "context"}, place)
        if not isinstance(wanted_context, dict):
            self.match(wanted_context, came.get("context", _ABSENT), f"{place}.context")
            return
        context = came.get("context")
        _require(isinstance(context, dict), f"{place}.context", {**wanted_context, "library": "$any"}, context)
        assert isinstance(context, dict)
        if "library" not in wanted_context:
            library = {"$has": {"name": "$string", "version": "$string"}}
            self.match(library, context.get("library", _ABSENT), f"{place}.context.library")
            context = {name: value for name, value in context.items() if name != "library"}
        self.match(wanted_context, context, f"{place}.context")

    def _match_pattern(self, wanted: str, came: Any, place: str) -> None:
        name, _, argument = wanted[1:].partition(":")
        if name.startswith("$"):
            _require(came == wanted[1:], place, wanted[1:], came)
        elif name == "any":
            _require(came is not _ABSENT, place, wanted, came)
        elif name == "absent":
            _require(came is _ABSENT, place, wanted, came)
        elif name == "string":
            _require(isinstance(came, str) and came != "", place, wanted, came)
        elif name == "number":
            _require(isinstance(came, (int, float)) and not isinstance(came, bool), place, wanted, came)
        elif name == "time":
            seconds = _seconds(came)
            good = seconds is not None and self._began - CLOCK_SECONDS <= seconds <= time.time() + CLOCK_SECONDS
            _require(good, place, "$time: ISO 8601, UTC, milliseconds, during the case", came)
        elif name == "newer":
            before, after = _seconds(self.bound.get(argument)), _seconds(came)
            good = before is not None and after is not None and after > before
            _require(good, place, f"a time later than {self.bound.get(argument)}", came)
        else:
            self._match_name(name, came, place)

    def _match_name(self, name: str, came: Any, place: str) -> None:
        _require(came is not _ABSENT, place, f"${name}", came)
        if name.startswith("id"):
            good = isinstance(came, str) and 0 < len(came) <= MESSAGE_ID_CHARACTERS_MAX
            _require(good, place, f"${name}: a messageId", came)
        if name in self.bound:
            _require(came == self.bound[name], place, self.bound[name], came)
        else:
            self.bound[name] = came

    def _match_object(self, wanted: dict[str, Any], came: Any, place: str, is_whole: bool) -> None:
        _require(isinstance(came, dict), place, wanted, came)
        for name, value in wanted.items():
            self.match(value, came.get(name, _ABSENT), f"{place}.{name}")
        if is_whole:
            for name in came:
                _require(name in wanted, f"{place}.{name}", _ABSENT, came[name])

    def _match_list(self, wanted: list[Any], came: Any, place: str, match: Callable[[Any, Any, str], None]) -> None:
        _require(isinstance(came, list), place, wanted, came)
        for index, (value, item) in enumerate(zip(wanted, came, strict=False)):
            match(value, item, f"{place}[{index}]")
        _require(
            len(came) == len(wanted), place, f"{len(wanted)} items: {shown(wanted)}", f"{len(came)}: {shown(came)}"
        )

    def _match_rule(
        self, rule: str, wanted: dict[str, Any], came: Any, place: str, match: Callable[[Any, Any, str], None]
    ) -> None:
        if rule in ("$each", "$count", "$from"):
            _require(isinstance(came, list), place, wanted, came)
            start = wanted.get("$from", 0)
            for index, item in enumerate(came):
                match(numbered(wanted.get("$each", "$any"), start + index), item, f"{place}[{index}]")
            self.match(wanted.get("$count", "$any"), len(came), f"{place}, how many")
        elif rule == "$has":
            self.match(wanted["$has"], came, place, is_whole=False)
        elif rule == "$contains":
            _require(isinstance(came, list), place, wanted, came)
            for value in wanted["$contains"]:
                _require(value in came, place, f"with {shown(value)}", came)
        elif rule == "$between":
            least, most = wanted["$between"]
            good = isinstance(came, (int, float)) and least <= came <= most
            _require(good, place, f"{least} to {most}", came)
        else:
            raise Difference(place, f"a rule that there is, not {rule}", came)


def numbered(value: Any, number: int) -> Any:
    """Return a document with ``{n}`` in its strings replaced by the number."""
    return replaced(value, {"{n}": str(number)})


def repeated(value: Any) -> Any:
    """Return a document with ``{x*1000}`` in its strings replaced by so many ``x``."""
    if isinstance(value, str):
        return _REPEATED.sub(lambda found: found[1] * int(found[2]), value)
    if isinstance(value, list):
        return [repeated(item) for item in value]
    return {name: repeated(item) for name, item in value.items()} if isinstance(value, dict) else value


def replaced(value: Any, words: dict[str, str]) -> Any:
    """Return a document with words in its strings replaced."""
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(word, text)
        return value
    if isinstance(value, list):
        return [replaced(item, words) for item in value]
    if isinstance(value, dict):
        return {name: replaced(item, words) for name, item in value.items()}
    return value


def shown(value: object) -> str:
    """Return a value as a person wants to see it in a failure, and not more than that."""
    if value is _ABSENT:
        return "nothing"
    text = value if isinstance(value, str) and len(value) > 60 else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > SHOWN_CHARACTERS_MAX:
        text = f"{text[:SHOWN_CHARACTERS_MAX]}… ({len(text):,} characters)"
    return text


def _seconds(value: object) -> float | None:
    if not isinstance(value, str) or not _TIME(value):
        return None
    try:
        return datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _require(good: bool, place: str, wanted: object, came: object) -> None:
    if not good:
        raise Difference(place, wanted, came)
