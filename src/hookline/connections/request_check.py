"""What is wrong with the requests of a mapping, each with its place: of one destination, or of a kind that somebody
writes."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from hookline.connections.receiver_url import parse_receiver_url
from hookline.expressions.lexer import ExpressionError
from hookline.expressions.parse import parse
from hookline.expressions.tree import paths_in
from hookline.kinds.answers import ANSWER_FIELDS
from hookline.kinds.headers import HOP_BY_HOP, check_header_name
from hookline.kinds.mapping import MappingError
from hookline.kinds.model import Json, Request
from hookline.kinds.requests import FIELDS, Plan
from hookline.kinds.settings import Schema

RequestProblem: TypeAlias = tuple[Literal["invalid_mapping", "invalid_headers", "invalid_url"], str, str]
"""Code, path (``mapping[0].success.if``), and a sentence."""

_CREDENTIAL_HEADERS = ("authorization", "cookie", "key", "password", "secret", "token")
_EXAMPLE = "apiKey"
_SCHEME = re.compile(r"(Bearer|Basic|Token|ApiKey|Key) ", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{\{\{?\s*[A-Za-z_$][^{}]*\}\}")
_ONE_SETTING = re.compile(r"\{\{\s*settings\.([A-Za-z0-9_.]+)\s*\}\}")
_SETTING = re.compile(r"(?:\{\{\{?\s*|\$\.)settings\.([A-Za-z0-9_]+)")
_SETTING_OF_PATH = re.compile(r"(?:^|\{\{\{?\s*|\$\.)settings\.([A-Za-z0-9_]+)")
_SETTING_IN_ROWS = re.compile(r"(?:\{\{\{?\s*|\$\.)settings\.([A-Za-z0-9_]+)\.([A-Za-z0-9_-]+)")


def request_problems(
    requests: Sequence[Request],
    place: str,
    schema: Schema,
    settings: Mapping[str, Json],
    unknown: Callable[[str], str] | None = None,
) -> Iterator[RequestProblem]:
    """Yield everything wrong with the requests at ``place``, over settings of a schema.

    ``unknown`` returns the sentence for a setting that the schema does not have, by default one for who writes a
    destination.
    """
    names = [request.name for request in requests]
    for index, request in enumerate(requests):
        at = f"{place}[{index}]"
        if names.index(request.name) < index:
            yield "invalid_mapping", f"{at}.name", f"two requests are named {request.name!r}; rename one"
        yield from _expression_problems(request, at)
        said: set[str] = set()
        for problems in (  # those that say more come first; of one place one is enough
            _header_problems(request, at, schema, settings),
            _setting_problems(request, at, schema, unknown or (lambda name: _no_setting(name, schema))),
            _document_problems(request, at, settings),
        ):
            found = [each for each in problems if each[1] not in said]
            said |= {path for _, path, _ in found}
            yield from found


def dotted(pointer: str) -> str:
    """Return a JSON pointer as paths are written here: ``/body/items/0`` as ``.body.items[0]``."""
    return "".join(_step(part.replace("~1", "/").replace("~0", "~")) for part in pointer.split("/")[1:])


def _step(name: str) -> str:
    if name.isdigit():
        return f"[{name}]"
    return f"[{json.dumps(name)}]" if re.search(r"[.\[\]]", name) or not name else f".{name}"


def _expression_problems(request: Request, at: str) -> Iterator[RequestProblem]:
    written: list[tuple[str, str | None, Sequence[str]]] = [("if", request.condition, FIELDS)]
    if (success := request.success) is not None:
        answers = (("if", success.condition), ("refused", success.refused), ("retry", success.retry))
        written += [(f"success.{key}", text, ANSWER_FIELDS) for key, text in answers]
    for path, text, fields in written:
        if text is not None:
            try:
                parse(text, fields)
            except ExpressionError as error:
                yield "invalid_mapping", f"{at}.{path}", str(error)


def _document_problems(request: Request, at: str, settings: Mapping[str, Json]) -> Iterator[RequestProblem]:
    documents = msgspec.structs.replace(request, condition=None, success=None)
    try:
        (compiled,) = Plan([documents], settings).requests
        parse_receiver_url(compiled.sample_url)
    except MappingError as error:
        yield "invalid_mapping", at + dotted(error.path.removeprefix("/0")), error.sentence
    except ValueError as error:
        yield "invalid_url", f"{at}.url", str(error)


def _setting_problems(
    request: Request, at: str, schema: Schema, unknown: Callable[[str], str]
) -> Iterator[RequestProblem]:
    if isinstance(schema.get("additionalProperties"), dict):
        return
    known = schema.get("properties", {})
    for path, text in _texts(msgspec.to_builtins(request), at):
        if path == f"{at}.if":
            names = _in_condition(text)
        else:
            names = (_SETTING_OF_PATH if path.endswith(".@path") else _SETTING).findall(text)
        for name in dict.fromkeys(names):
            if name not in known:
                yield "invalid_mapping", path, unknown(name)


def _in_condition(text: str) -> list[str]:
    try:
        return [path[1] for path in paths_in(parse(text, FIELDS)) if path[0] == "settings" and len(path) > 1]
    except ExpressionError:
        return []


def _texts(value: Json, path: str) -> Iterator[tuple[str, str]]:
    """Yield each text with its path; the path of a text in a list is that of the list's item."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, path + _step(str(name)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{path}[{index}]")


def _header_problems(
    request: Request, at: str, schema: Schema, settings: Mapping[str, Json]
) -> Iterator[RequestProblem]:
    for name, value in request.headers.items():
        path = f"{at}.headers{_step(name)}"
        try:
            check_header_name(name)
        except ValueError as error:
            yield "invalid_headers", path, str(error)
        if name.lower() in HOP_BY_HOP or name.lower() in ("host", "content-length"):
            yield "invalid_headers", path, f"header {name!r} is set by Hookline: leave it out"
        if isinstance(value, str) and _PLACEHOLDER.search(value):
            yield "invalid_headers", path, _not_filled(value, schema, settings)
        elif isinstance(value, str) and any(word in name.lower() for word in _CREDENTIAL_HEADERS):
            yield "invalid_headers", path, _openly(name, value, schema)
        elif (lacking := _lacking(value, schema, settings)) is not None:
            yield "invalid_headers", path, lacking


def _not_filled(value: str, schema: Schema, settings: Mapping[str, Json]) -> str:
    """Return the sentence for a text that was meant as a template; a mapping sends texts as they stand."""
    rows = _secret_rows(schema)
    known = schema.get("properties", {})
    entered = _entered(settings, rows)
    missing: list[str] = []

    def placed(found: re.Match[str]) -> str:
        if rows is None or found[1].partition(".")[0] in known:
            return found[0]
        if found[1] not in entered:
            missing.append(found[1])
        return f"{{{{settings.{rows}.{found[1]}}}}}"

    template = json.dumps({"@template": _ONE_SETTING.sub(placed, value)}, ensure_ascii=False)
    also = f", and enter {missing[0]} under {_called(rows, schema)}" if missing and rows else ""
    return f"this text would be sent with its braces; write it as a template: {template}{also}"


def _openly(name: str, value: str, schema: Schema) -> str:
    """Return the sentence for a credential that stands in the mapping itself, which everybody may read."""
    rows = _secret_rows(schema)
    if rows is not None:
        kept, setting = f"under {_called(rows, schema)}, such as {_EXAMPLE}", f"settings.{rows}.{_EXAMPLE}"
    else:
        secrets = [each for each, rule in schema.get("properties", {}).items() if rule.get("secret")]
        kept, setting = "in a setting with secret: true", f"settings.{(secrets or [_EXAMPLE])[0]}"
    scheme = _SCHEME.match(value)
    template = json.dumps({"@template": f"{scheme[0] if scheme else ''}{{{{{setting}}}}}"})
    other = " (or leave this header out and use settings.auth)" if _has_auth(name, schema) else ""
    return f"a credential belongs {kept}; then write this header as {template}{other}"


def _lacking(value: Json, schema: Schema, settings: Mapping[str, Json]) -> str | None:
    """Return the sentence for a header that is filled with what was never entered; it would be sent half empty."""
    text = value.get("@template", value.get("@path")) if isinstance(value, dict) else None
    for group, name in _SETTING_IN_ROWS.findall(text) if isinstance(text, str) else ():
        is_rows = isinstance(schema.get("properties", {}).get(group, {}).get("additionalProperties"), dict)
        if is_rows and name not in _entered(settings, group):
            return f"there is no {name} under {_called(group, schema)} yet; enter it there first"
    return None


def _entered(settings: Mapping[str, Json], rows: str | None) -> Mapping[str, Json]:
    """Return the entries of rows; what is no rows has none, and is refused as such elsewhere."""
    found = settings.get(rows) if rows is not None else None
    return found if isinstance(found, dict) else {}


def _has_auth(header: str, schema: Schema) -> bool:
    return header.lower() == "authorization" and "auth" in schema.get("properties", {})


def _secret_rows(schema: Schema) -> str | None:
    """Return the setting that holds secrets under names of one's own, None where there is none."""
    for name, rule in schema.get("properties", {}).items():
        others = rule.get("additionalProperties")
        if isinstance(others, dict) and others.get("secret"):
            return str(name)
    return None


def _called(name: str, schema: Schema) -> str:
    """Return a setting as its form and as files call it."""
    title = schema.get("properties", {}).get(name, {}).get("title")
    return f"{title} (settings.{name})" if title else f"settings.{name}"


def _no_setting(name: str, schema: Schema) -> str:
    known = schema.get("properties", {})
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"there is no setting {name!r}; did you mean settings.{close[0]}?"
    if (rows := _secret_rows(schema)) is not None:
        enter = f"enter {name} under {_called(rows, schema)}"
        return f"there is no setting {name!r}; write settings.{rows}.{name}, and {enter}"
    return f"there is no setting {name!r}; known are {', '.join(known) or 'none'}"
