"""The admin API's reference as a page, made from its description: ``python -m tests.docs.api_page``
writes ``docs/reference/api.md`` anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hookline.api.openapi import description
from hookline.control.app import api

PAGE = "docs/reference/api.md"
_PAGED = "Listing_"

_HEAD = """# Admin API

The pages and the command line use this API for everything they do. [Use the admin API](../how-to/use-the-api.md) makes
the first calls. The API is below `/api/v1` of the control port. `/api/openapi.json` describes it as OpenAPI 3.1, and
`make reference` generates this page from that.

- **Token.** Send `Authorization: Bearer TOKEN`, with the admin token or one created with `POST /api/v1/tokens`. The
  scopes `read`, `write` and `admin` allow what a [viewer, an editor and an owner](../how-to/let-people-in.md) may do.
- **Errors** are problem details (RFC 9457) with a `code` that [error codes](errors.md) explains.
- **Lists** return one page, `{"items": […], "after": …}`. Pass `after` back to get the next page; null ends the list.
- **Repeats.** Every POST takes an `Idempotency-Key`. If you send the same request with the same key again within
  24 hours, Hookline returns the first answer and does nothing. It keeps the 10,000 newest keys of each caller.
- **Changes at the same time.** `ETag` names the state of an object. With it as `If-Match`, Hookline makes a change only
  if the object still has that state (otherwise 412 `changed_meanwhile`).
- **Limits.** Each account or token may make 30,000 requests a minute, and each address without a valid token 3,000.
  `RateLimit` says how many are left. Beyond that, the answer is 429 with `Retry-After`.
- **Request id.** Every answer has an `X-Request-Id`, yours if you sent one. The audit log has it too.
"""


def reference(described: dict[str, Any]) -> str:
    """The page."""
    return "\n".join([*_lines(described), ""])


def _lines(described: dict[str, Any]) -> Iterator[str]:
    yield _HEAD
    operations = [
        (method, path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in operations):
        yield f"## {tag.replace('-', ' ').capitalize()}\n"
        for method, path, operation in operations:
            if operation["tags"][0] == tag:
                yield from _operation(method, path, operation)
    yield "## Objects\n"
    for name, schema in sorted(described["components"]["schemas"].items()):
        if not name.startswith(_PAGED):
            yield from _object(name, schema)


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    yield f"{operation['summary']}\n"
    asked = [each for each in operation["parameters"] if each["in"] == "query"]
    if asked:
        yield "| Parameter | Meaning |\n|---|---|"
        for each in asked:
            yield f"| `{each['name']}` ({_type(each['schema'])}) | {each['description']} |"
        yield ""
    body = operation.get("requestBody")
    parts = [f"Body: {_content(body['content'])}."] if body else []
    good, bad = [], []
    for status, answer in operation["responses"].items():
        if status[0] == "2":
            good.append(f"{status} {_content(answer['content'])}" if "content" in answer else status)
        elif status != "default":
            bad.append(status)
    yield " ".join([*parts, f"Answers {', '.join(good)}; refused with {', '.join(bad)}."]) + "\n"


def _object(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if text := schema.get("description"):
        yield f"{' '.join(text.split())}\n"
    fields = schema.get("properties", {})
    if not fields:
        yield f"{_type(schema)}\n"
        return
    required = schema.get("required", ())
    yield "| Field | Type | |\n|---|---|---|"
    for field, kind in fields.items():
        default = "" if "default" not in kind else f"default `{_literal(kind['default'])}`"
        yield f"| `{field}` | {_type(kind)} | {'required' if field in required else default} |"
    yield ""


def _content(content: dict[str, Any]) -> str:
    ((media_type, inner),) = content.items()
    kind = _type(inner["schema"])
    return kind if media_type == "application/json" else f"`{media_type}`"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        item = name.removeprefix(_PAGED).rstrip("_")
        return f"{'' if item == name else 'a page of '}[{item}](#{item.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{_literal(each)}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(schema.get("type", "any value"))


def _literal(value: Any) -> str:
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PAGE).write_text(reference(description(api())), encoding="utf-8")
