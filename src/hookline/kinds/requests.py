"""What an event becomes: the requests of a mapping, compiled once for a destination, rendered for each event.

Pure: no socket, no clock. A URL's host comes from its text and the settings alone. What an event gives to a URL is
percent-encoded and can neither leave its place nor be missing, so that no event chooses where, or what else, it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from hookline.events.view import EVENT_FIELDS
from hookline.expressions.compile import Condition, compile_condition
from hookline.expressions.parse import parse
from hookline.expressions.tree import paths_in
from hookline.kinds.answers import Judge
from hookline.kinds.mapping import MISSING, MappingError, MappingFailed, compile_mapping
from hookline.kinds.mapping import Mapping as Document
from hookline.kinds.model import PER_EVENT_MAX, Json, Request

URL_CHARACTERS_MAX = 8_192
HEADER_CHARACTERS_MAX = 8_192
FIELDS = (*EVENT_FIELDS, "receivedAt", "settings")
"""What conditions and paths of a mapping may begin with. Paths alone may begin with INTEGRATIONS too."""
INTEGRATIONS = "integrations"

Fields = dict[str, Json]
"""An event's fields, with ``settings`` among them."""

_PLACE = re.compile(r"\{\{\{?\s*([^{}]*?)\s*\}?\}\}")
# RFC 3986 sub-delims, pchar, "/" and "?", and "%" because what is already encoded stays as written.
TARGET_SAFE = "%/?:@!$&'()*+,;=-._~[]"
_ORIGIN = re.compile(r"https?://[^/?#]+", re.IGNORECASE)
_BEYOND_ORIGIN = re.compile(r"https?://[^/?#]+[/?]", re.IGNORECASE)
_UNSENDABLE = re.compile(r"[^\x20-\x7e\xa0-\xff]")
_DOTS = frozenset({".", ".."})
_SAMPLE = "x"


class Rendered(NamedTuple):
    """One request without what the sender adds; of a batch, one item of it.

    ``target`` is path and query, ``headers`` are lines with their ends, ``body`` the bytes of the body or item.
    """

    target: str
    headers: bytes
    body: bytes


class CompiledRequest:
    """One request of a mapping; raise MappingError or ExpressionError for what was never checked."""

    def __init__(self, request: Request, settings: Mapping[str, Json]) -> None:
        self.request = request
        self.name = request.name
        self.batch = request.batch
        self.matches: Condition | None = None
        self.asks_settings = False
        """Whether the condition does."""
        if request.condition is not None:
            condition = parse(request.condition, FIELDS)
            self.matches = compile_condition(condition)
            self.asks_settings = any(path[0] == "settings" for path in paths_in(condition))
        self.judge = Judge(request.success) if request.success is not None else None
        self._url = UrlTemplate(request.url, settings)
        self._query = [(name, _compiled(value, f"/query/{_escaped(name)}")) for name, value in request.query.items()]
        self._headers = [
            (name, _compiled(value, f"/headers/{_escaped(name)}")) for name, value in request.headers.items()
        ]
        self._settings = settings
        given = [
            name
            for name, value in (("body", request.body), ("form", request.form or msgspec.UNSET), ("raw", request.raw))
            if value is not msgspec.UNSET
        ]
        if len(given) > 1:
            raise MappingError(f"/{given[1]}", f"a request has one body: keep {' or '.join(given)}")
        self._form = given[0] if given else ""
        source: Json = {"body": request.body, "form": request.form, "raw": request.raw}.get(self._form)
        self._body = _compiled(source, f"/{self._form}") if self._form else None
        self.content_type = {"form": "application/x-www-form-urlencoded", "raw": "text/plain; charset=utf-8"}.get(
            self._form, "application/json"
        )
        if self.batch is not None and self.batch.format == "lines":
            self.content_type = "application/x-ndjson"
        if self.batch is not None and self._form in ("form", "raw"):
            raise MappingError("/batch", f"a batch is made of JSON bodies: write body in place of {self._form}")

    @property
    def sample_url(self) -> str:
        """Return the URL with something in the place of all that an event gives; its origin is the true one."""
        return self._url.sample

    @property
    def named_url(self) -> str:
        """Return the URL with the names of the fields in the place of what an event gives."""
        return self._url.named

    @cached_property
    def paths(self) -> frozenset[str]:
        """Return the dotted paths that its documents read."""
        documents = [self._body, *(each for _, each in self._query), *(each for _, each in self._headers)]
        return frozenset(path for each in documents if each is not None for path in each.paths)

    @property
    def is_plain(self) -> bool:
        """Return whether it asks for no field of an event: the body is the one that webhooks get."""
        documents = [each for _, each in (*self._query, *self._headers)]
        is_fixed = self._url.is_fixed and not any(document.paths for document in documents)
        return self.matches is None and self._body is None and is_fixed

    @property
    def has_body(self) -> bool:
        """Return whether it carries a body."""
        return self._body is not None or self.request.method not in ("GET", "OPTIONS")

    def sets_header(self, name: str) -> bool:
        """Return whether the mapping writes this header itself."""
        return any(name.lower() == each.lower() for each, _ in self._headers)

    def render(self, fields: Fields, plain: Callable[[], bytes]) -> Rendered:
        """Return what an event becomes; ``plain`` gives the body that a webhook would get.

        Raise MappingFailed, with the path in the request, where the event cannot become one.
        """
        target = self._url.target(fields)
        if self._query:
            target += self._asked(fields, "&" if "?" in target else "?")
        body = self._item(fields, plain) if self.has_body else b""
        return Rendered(target, self._header_lines(fields), body)

    def plain_item(self, body: bytes) -> bytes:
        """Return what stands in the request for an event of which a webhook would get this body."""
        if self.batch is None or self.batch.format != "lines":
            return body
        # JSON has line breaks between its tokens only, where a space means the same; here they would begin a record.
        return body.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"

    def join(self, items: Sequence[bytes]) -> bytes:
        """Return the body of a batch."""
        batch = self.batch
        assert batch is not None
        if batch.format == "lines":
            return b"".join(items)
        joined = b"[" + b",".join(items) + b"]"
        if batch.format == "array":
            return joined
        head, tail = self._around
        return head + joined + tail

    @cached_property
    def _around(self) -> tuple[bytes, bytes]:
        batch = self.batch
        assert batch is not None
        try:
            envelope = _compiled(batch.envelope or {}, "/batch/with").resolve({"settings": dict(self._settings)})
        except MappingFailed as failed:  # no event is at fault: it gets the settings alone
            raise MappingError(f"/batch/with{failed.path}", failed.sentence) from None
        if not isinstance(envelope, dict) or batch.field is None:
            raise MappingError(
                "/batch/field", "name the field of the object that holds the items, such as field: events"
            )
        head = msgspec.json.encode({name: value for name, value in envelope.items() if name != batch.field})
        named = msgspec.json.encode(batch.field) + b":"
        return head[:-1] + (b"," if len(head) > 2 else b"") + named, b"}"

    def check(self) -> None:
        """Raise MappingError for what shows only when a first request is made."""
        if self.batch is not None and self.batch.format == "object":
            _ = self._around

    def _asked(self, fields: Fields, begin: str) -> str:
        pairs = []
        for name, document in self._query:
            value = document.resolve(fields)
            if value is not MISSING and value is not None:
                pairs.append((name, _text(value, f"/query/{_escaped(name)}")))
        return begin + urlencode(pairs, quote_via=quote, safe="", errors="replace") if pairs else ""

    def _header_lines(self, fields: Fields) -> bytes:
        lines = ""
        for name, document in self._headers:
            value = document.resolve(fields)
            if value is MISSING or value is None:
                continue
            text = _text(value, f"/headers/{_escaped(name)}")
            if len(text) > HEADER_CHARACTERS_MAX or _UNSENDABLE.search(text):
                raise MappingFailed(f"/headers/{_escaped(name)}", f"the value cannot be sent in header {name!r}")
            lines += f"{name}: {text}\r\n"
        return lines.encode("latin-1")

    def _item(self, fields: Fields, plain: Callable[[], bytes]) -> bytes:
        if self._body is None:
            return self.plain_item(plain())
        value = self._body.resolve(fields)
        if value is MISSING:
            raise MappingFailed(f"/{self._form}", "the event gives nothing for the body")
        if self._form == "raw":
            return _text(value, "/raw").encode("utf-8", "replace")
        if self._form == "form":
            return urlencode(_pairs(value), quote_via=quote, errors="replace").encode("ascii")
        if self.batch is not None and self.batch.format == "lines":
            return b"".join(_json(each) + b"\n" for each in (value if isinstance(value, list) else [value]))
        return _json(value)


class Plan:
    """All requests of a destination's mapping."""

    def __init__(
        self, requests: Sequence[Request], settings: Mapping[str, Json], asked: Mapping[str, Json] | None = None
    ) -> None:
        """``asked`` are the settings as conditions see them, where those are others."""
        self.requests: list[CompiledRequest] = []
        self.settings = dict(settings)
        self._asked = self.settings if asked is None else dict(asked)
        for index, request in enumerate(requests):
            try:
                made = CompiledRequest(request, settings)
                made.check()
            except MappingError as error:
                raise MappingError(f"/{index}{error.path}", error.sentence) from None
            self.requests.append(made)
        self._asks_settings = any(each.asks_settings for each in self.requests)

    def matching(self, fields: Fields) -> list[int]:
        """Return which requests an event becomes; ``fields`` are those of ``event_fields``."""
        if self._asks_settings:
            fields = {**fields, "settings": self._asked}
        return [
            index for index, each in enumerate(self.requests) if each.matches is None or each.matches(fields) is True
        ]

    @cached_property
    def is_plain(self) -> bool:
        """Return whether it asks for no field of an event."""
        return all(each.is_plain for each in self.requests)

    @cached_property
    def asks_integrations(self) -> bool:
        """Return whether a document reads which integrations the caller chose; hardly any does."""
        paths = {path.partition(".")[0] for each in self.requests for path in each.paths}
        return INTEGRATIONS in paths or "" in paths

    @property
    def batch_size(self) -> int:
        """Return how many events go into one request at most; 1 where none are gathered."""
        return max((each.batch.size for each in self.requests if each.batch is not None), default=1)

    @property
    def batch_bytes(self) -> int:
        """Return how much body one request has at most."""
        return max((each.batch.bytes for each in self.requests if each.batch is not None), default=0)

    @property
    def batch_wait_seconds(self) -> float:
        """Return how long an event may wait for others."""
        return min((each.batch.wait for each in self.requests if each.batch is not None), default=0.0)


class UrlTemplate:
    """A URL with places for what settings and events give."""

    __slots__ = ("_parts", "named", "sample")

    def __init__(self, document: Json, settings: Mapping[str, Json]) -> None:
        if isinstance(document, dict) and set(document) == {"@template"}:
            document = document["@template"]
        if not isinstance(document, str):
            raise MappingError("/url", "write the URL as text; what the event gives goes into it as {{userId}}")
        parts: list[str | Document] = []
        fixed, end = "", 0
        for place in _PLACE.finditer(document):
            fixed += document[end : place.start()]
            end = place.end()
            if place[1].startswith("settings."):
                fixed += _of_settings(place[1], settings, _written(parts) + fixed, document[end:])
                continue
            if not parts and _BEYOND_ORIGIN.match(fixed) is None:
                raise MappingError("/url", "the host is fixed: an event may give a part of the path or query alone")
            parts += [fixed, _compiled({"@path": f"$.{place[1]}"}, "/url")]
            fixed = ""
        parts.append(fixed + document[end:])
        written = _written(parts)
        origin = _ORIGIN.match(written)
        if origin is None:
            raise MappingError("/url", "write a full URL that begins with http:// or https://")
        if "#" in written:
            raise MappingError("/url", "a URL has no fragment here: leave out the # and what follows it")
        self.sample = written
        self.named = "".join(each if isinstance(each, str) else f"{{{', '.join(each.paths)}}}" for each in parts)
        """As people see it: with the names of the fields that an event gives."""
        first = parts[0]
        assert isinstance(first, str)
        parts[0] = first[origin.end() :]
        self._parts = [quote(each, safe=TARGET_SAFE) if isinstance(each, str) else each for each in parts]

    @property
    def is_fixed(self) -> bool:
        """Return whether it is the same for every event."""
        return len(self._parts) == 1

    def target(self, fields: Fields) -> str:
        """Return path and query for an event; raise MappingFailed where it does not have what the URL needs."""
        parts = self._parts
        if len(parts) == 1:
            target = parts[0]
            assert isinstance(target, str)
        else:
            target = "".join([each if isinstance(each, str) else _piece(each, fields) for each in parts])
            if len(target) > URL_CHARACTERS_MAX:
                raise MappingFailed("/url", f"the URL would have more than {URL_CHARACTERS_MAX} characters")
        return target if target.startswith("/") else "/" + target


def _written(parts: Sequence[str | Document]) -> str:
    return "".join(each if isinstance(each, str) else _SAMPLE for each in parts)


def event_fields(
    record_fields: Mapping[str, Json],
    settings: Mapping[str, Json],
    received_at: str,
    integrations: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """Return an event's fields as mappings see them; ``integrations`` are the caller's choice, where that is asked."""
    fields = {**record_fields, "receivedAt": received_at, "settings": settings}
    if integrations is not None:
        fields[INTEGRATIONS] = integrations
    return fields


def too_many(count: int) -> MappingFailed:
    """Return the error of an event that becomes too many requests."""
    return MappingFailed("", f"one event becomes at most {PER_EVENT_MAX} requests, this one {count}")


def _compiled(document: Json, path: str) -> Document:
    try:
        return compile_mapping(document)
    except MappingError as error:
        raise MappingError(path + error.path, error.sentence) from None


def _of_settings(name: str, settings: Mapping[str, Json], before: str, after: str) -> str:
    value: Json = settings
    for part in name.split(".")[1:]:
        value = value.get(part) if isinstance(value, Mapping) else None
    if not isinstance(value, str | int) or value == "":
        raise MappingError("/url", f"{name} is needed for the URL: set it")
    text = str(value)
    if not before:
        return text.rstrip("/") if after.startswith("/") else text  # the slash at the end of a whole URL is part of it
    if "/" not in before.partition("://")[2]:  # still within the host
        if not re.fullmatch(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?", text):
            raise MappingError("/url", f"{name} is a part of the host: letters, digits, dots and hyphens")
        return text
    return quote(text, safe="-._~" if "?" in before else "/-._~")


def _piece(document: Document, fields: Fields) -> str:
    value = document.resolve(fields)
    text = "" if value is MISSING or value is None else _text(value, "/url")
    if not text:
        needed = ", ".join(sorted(document.paths))
        raise MappingFailed("/url", f"the URL needs {needed}, which this event does not have")
    if text in _DOTS:
        raise MappingFailed("/url", "dots alone cannot be a part of a path")
    return quote(text, safe="-_~.", errors="replace")


def _text(value: Json, path: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return msgspec.json.encode(int(value) if value.is_integer() and abs(value) < 2**53 else value).decode()
    raise MappingFailed(path, "a text or a number belongs here, not a list or an object")


def _pairs(value: Json) -> list[tuple[str, str]]:
    if not isinstance(value, dict):
        raise MappingFailed("/form", "fields with their names belong here, not a text, a number or a list")
    pairs: list[tuple[str, str]] = []
    for name, inner in value.items():
        if inner is None or inner is MISSING:
            continue
        for each in inner if isinstance(inner, list) else [inner]:
            pairs.append(
                (
                    name,
                    _json(each).decode() if isinstance(each, dict | list) else _text(each, f"/form/{_escaped(name)}"),
                )
            )
    return pairs


def _json(value: Json) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError, UnicodeEncodeError):  # half a character, which JSON can only escape
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
