"""The description of the admin API (OpenAPI 3.1), served at ``/api/openapi.json``.

Objects come from the very structs that requests are decoded with; the operations are the tables of the neighbouring
modules, which a test holds against the routes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from litestar import Response, get

import hookline
from hookline.control.openapi.audience_operations import AUDIENCE_OPERATIONS
from hookline.control.openapi.connection_operations import CONNECTION_OPERATIONS
from hookline.control.openapi.delivery_operations import DELIVERY_OPERATIONS
from hookline.control.openapi.event_operations import EVENT_OPERATIONS
from hookline.control.openapi.headers import ANSWER_HEADERS, ETAG, IDEMPOTENCY_KEY, IF_MATCH
from hookline.control.openapi.insight_operations import INSIGHT_OPERATIONS
from hookline.control.openapi.operation import JSON, Operation
from hookline.control.openapi.parameters import NAMES, PARAMETERS
from hookline.control.openapi.people_operations import PEOPLE_OPERATIONS
from hookline.control.openapi.person_operations import PERSON_OPERATIONS
from hookline.control.openapi.privacy_operations import PRIVACY_OPERATIONS
from hookline.control.problem import MEDIA_TYPE, ProblemBody

PATH = "/api/openapi.json"
OPERATIONS = (
    *CONNECTION_OPERATIONS,
    *AUDIENCE_OPERATIONS,
    *PERSON_OPERATIONS,
    *DELIVERY_OPERATIONS,
    *EVENT_OPERATIONS,
    *INSIGHT_OPERATIONS,
    *PRIVACY_OPERATIONS,
    *PEOPLE_OPERATIONS,
)
ABOUT = (
    "Errors are RFC 9457 problem details with a stable `code`; their `type` leads to what it means. Lists come in "
    "pages: `after` of an answer is the next page's `after`. A POST with an `Idempotency-Key` is done once, however "
    "often it is sent. A change with `If-Match` is made only if the object still has that `ETag`. Every answer has an "
    "`X-Request-Id`, which the audit log has too."
)


@get(PATH, needs="open", sync_to_thread=False)
def get_openapi() -> Response[bytes]:
    """Return the description; it holds nothing secret and needs no token."""
    return Response(msgspec.json.encode(description()), media_type=JSON)


@cache
def description() -> dict[str, Any]:
    """The whole document."""
    structs = [each for operation in OPERATIONS for each in (operation.answer, operation.body) if _is_struct(each)]
    unique = list({str(each): each for each in [*structs, ProblemBody]}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template="#/components/schemas/{name}")
    _spell_ends(components)
    reference = dict(zip(map(str, unique), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, reference)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hookline admin API",
            "version": hookline.__version__,
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "hookline_session"},
            },
        },
    }


def _spell_ends(schema: Any) -> None:
    r"""Write the end of each pattern as JSON Schema has it: its ``$`` is what Python's ``\Z`` is."""
    for name, inner in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if name == "pattern" and isinstance(inner, str):
            schema[name] = inner.removesuffix(r"\Z") + "$" * inner.endswith(r"\Z")
        elif isinstance(inner, dict | list):
            _spell_ends(inner)


def _operation(operation: Operation, reference: dict[str, Any]) -> dict[str, Any]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    for name in operation.query:
        text, schema = PARAMETERS[name]
        parameters.append({"name": NAMES.get(name, name), "in": "query", "description": text, "schema": schema})
    if operation.method == "post":
        parameters.append(IDEMPOTENCY_KEY)
    elif operation.tagged and operation.method != "get":
        parameters.append(IF_MATCH)
    made: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.path.split("/")[3]],
        "parameters": parameters,
        "responses": _responses(operation, reference),
    }
    if operation.body is not None:
        schema = reference.get(str(operation.body), {"type": "object"})
        made["requestBody"] = {"required": True, "content": {operation.body_type: {"schema": schema}}}
    return made


def _responses(operation: Operation, reference: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done.", "headers": dict(ANSWER_HEADERS)}
    if operation.tagged and operation.method != "delete":
        answer["headers"]["ETag"] = ETAG
    if operation.answer is not None:
        schema = reference.get(str(operation.answer), {"type": "string"})
        answer["content"] = {operation.answer_type: {"schema": schema}}
    responses = {str(operation.status): answer}
    if operation.method == "put":
        responses["201"] = {**answer, "description": "Created."}
    problem = {
        "description": "A problem.",
        "headers": dict(ANSWER_HEADERS),
        "content": {MEDIA_TYPE: {"schema": reference[str(ProblemBody)]}},
    }
    # A key that was used before: for another body (422), or for a request that is being done still (409).
    more = (409, 422) if operation.method == "post" else ()
    for status in sorted({400, 401, 403, 429, *more, *operation.problems}):
        responses[str(status)] = problem
    return {**responses, "default": problem}


def _is_struct(kind: Any) -> bool:
    return kind is not None and kind is not str and kind != dict[str, Any]
