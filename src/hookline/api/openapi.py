"""The description of the admin API (OpenAPI 3.1), served at ``/api/openapi.json``.

The framework makes it from the handlers: paths and parameters, bodies and answers, what they are called and what their
docstrings say. Added here is what holds for many calls alike and no handler says: which problems a call of its kind may
be answered with, and the headers that the layers around the handlers read and write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import msgspec
from litestar import Litestar, MediaType, Response, Router, get
from litestar._openapi.schema_generation import SchemaCreator
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, License, Schema, SecurityScheme, Server
from litestar.plugins import OpenAPISchemaPlugin
from litestar.routes import HTTPRoute
from litestar.typing import FieldDefinition

import hookline
from hookline.api.problem import MEDIA_TYPE, ProblemBody
from hookline.connections.model import SETTINGS_DESCRIPTION, WebhookSettings

PATH = "/api/openapi.json"
ABOUT = (
    "Errors are RFC 9457 problem details with a stable `code`; their `type` leads to what it means. Lists come in "
    "pages: `after` of an answer is the next page's `after`. A POST with an `Idempotency-Key` is done once, however "
    "often it is sent. A change with `If-Match` is made only if the object still has that `ETag`. Every answer has an "
    "`X-Request-Id`, which the audit log has too."
)
REFERENCE = "#/components/schemas/{name}"
TEXT = {"type": "string"}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Chosen by the caller: a request sent again with it within 24 hours gets the first one's answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "description": "The `ETag` that the object must still have (412 `changed_meanwhile` when it has not).",
    "schema": TEXT,
}
ETAG: dict[str, Any] = {"description": "Which state of the object this is, for `If-Match`.", "schema": TEXT}
ANSWER_HEADERS: dict[str, Any] = {
    "X-Request-Id": {"description": "The request's id, the caller's own if it sent one.", "schema": TEXT},
    "RateLimit": {"description": "What is left of the caller's requests, and until when.", "schema": TEXT},
    "RateLimit-Policy": {"description": "How many requests a caller may make in how long.", "schema": TEXT},
}
SETTINGS: dict[str, Any] = {
    "description": "Of a webhook: WebhookSettings. Of any other kind what its settingsSchema in the catalog allows.",
    "anyOf": [{"$ref": "#/components/schemas/WebhookSettings"}, {"type": "object", "additionalProperties": True}],
}
"""The settings of a destination, which the type alone does not tell."""
PROBLEM: dict[str, Any] = {
    "description": "A problem.",
    "headers": ANSWER_HEADERS,
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}},
}


CHANGING = frozenset({"post", "put", "patch", "delete"})


def served(api: Callable[[], Router]) -> HTTPRouteHandler:
    """Return the route that answers with the description of what ``api`` makes, from the first time it is asked."""

    making = asyncio.Lock()

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(description(api()))

    @get(PATH, needs="open")
    async def get_openapi() -> Response[bytes]:
        """Return the description; it holds nothing secret and needs no token."""
        async with making:  # the first request makes it, those beside it wait
            return Response(await asyncio.to_thread(encoded), media_type=MediaType.JSON)

    return get_openapi


def description(api: Router) -> dict[str, Any]:
    """Return the whole document."""
    structs = Structs()
    app = Litestar(
        [api],
        dependencies={"services": Provide(_nothing, sync_to_thread=False)},
        openapi_config=OpenAPIConfig(
            title="Hookline admin API",
            version=hookline.__version__,
            description=ABOUT,
            license=License(name="Apache-2.0", identifier="Apache-2.0"),
            servers=[Server(url="/")],
            security=[{"token": []}, {"session": []}],
            components=Components(
                security_schemes={
                    "token": SecurityScheme(type="http", scheme="bearer"),
                    "session": SecurityScheme(type="apiKey", security_scheme_in="cookie", name="hookline_session"),
                }
            ),
            operation_id_creator=_operation_id,
            use_handler_docstrings=True,
        ),
        plugins=[structs],
        logging_config=None,
    )
    made: dict[str, Any] = app.openapi_schema.to_schema()
    routes = {route.path_format: route for route in app.routes if isinstance(route, HTTPRoute)}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            handler, _ = routes[path].route_handler_map[method.upper()]
            _complete(operation, method, path, tagged=handler.opt.get("tagged", False))
    made["paths"] = _ordered(made["paths"])
    made["components"]["schemas"] = structs.components()
    return made


class Structs(OpenAPISchemaPlugin):
    """Has msgspec describe its structs, down to the last pattern; the framework knows less of them."""

    def __init__(self) -> None:
        self._kinds: dict[str, Any] = {str(ProblemBody): ProblemBody, str(WebhookSettings): WebhookSettings}

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        """Return whether it is a struct, or one that may also be asked for as text."""
        return _struct(field_definition) is not None

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: SchemaCreator) -> Schema:
        """Return what stands for the struct until all of them are known."""
        kind = _struct(field_definition)
        self._kinds[str(kind)] = kind
        return Referring(self, str(kind))

    def reference(self, kind: str) -> dict[str, Any]:
        """Return what refers to the schema of a struct."""
        return self._described[0][kind]

    def components(self) -> dict[str, Any]:
        """Return the schemas of all structs that were met, and of those within them."""
        return self._described[1]

    @cached_property
    def _described(self) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        schemas, components = msgspec.json.schema_components(self._kinds.values(), ref_template=REFERENCE)
        _spell_ends(components)
        for described in components.values():
            if described.get("properties", {}).get("settings", {}).get("description") == SETTINGS_DESCRIPTION:
                described["properties"]["settings"] = SETTINGS
        return dict(zip(self._kinds, schemas, strict=True)), components


class Referring(Schema):
    """A reference, where the framework wants a schema."""

    def __init__(self, structs: Structs, kind: str) -> None:
        super().__init__()
        self._structs = structs
        self._kind = kind

    def to_schema(self) -> dict[str, Any]:
        """Return it as the document has it."""
        return self._structs.reference(self._kind)


def _struct(field: FieldDefinition) -> Any:
    if field.is_union:
        # A report that is also a spreadsheet for those who accept one.
        kinds = [each for each in field.inner_types if not each.is_subclass_of(Response)]
        return _struct(kinds[0]) if len(kinds) == 1 and len(kinds) < len(field.inner_types) else None
    return field.annotation if field.is_subclass_of(msgspec.Struct) else None


def _ordered(paths: dict[str, Any]) -> dict[str, Any]:
    """Return the collections as the API lists them; within one, the framework's order is that of a set."""
    tags = list(dict.fromkeys(_tag(path) for path in paths))
    return {path: paths[path] for path in sorted(paths, key=lambda path: (tags.index(_tag(path)), path))}


def _tag(path: str) -> str:
    return path.split("/")[3]


def _complete(operation: dict[str, Any], method: str, path: str, tagged: bool) -> None:
    del operation["deprecated"]
    summary = operation.pop("description").partition("\n\n")[0]
    operation["summary"] = " ".join(summary.split())
    operation["tags"] = [_tag(path)]
    parameters = operation["parameters"] = [_parameter(each) for each in operation.get("parameters", ())]
    if method == "post":
        parameters.append(IDEMPOTENCY_KEY)
    elif tagged and method != "get":
        parameters.append(IF_MATCH)
    given = operation["responses"]
    answers = {status: _answer(answer) for status, answer in given.items() if status[0] == "2"}
    for answer in answers.values():
        if tagged and method != "delete":
            answer["headers"]["ETag"] = ETAG
    if method == "put":
        (answer,) = answers.values()
        answers["201"] = {**answer, "description": "Created."}
    problems = {status for status in given if status[0] != "2"} | _problems(operation, method, path, tagged)
    operation["responses"] = {**answers, **dict.fromkeys(sorted(problems), PROBLEM), "default": PROBLEM}


def _problems(operation: dict[str, Any], method: str, path: str, tagged: bool) -> set[str]:
    """Return what a call of this kind may be answered with, whatever it is about."""
    problems = {"400", "401", "403", "429"}
    if "{" in path and method != "put":
        problems.add("404")
    if method in CHANGING:
        problems.add("409")
    if tagged and method in CHANGING:
        problems.add("412")
    if "requestBody" in operation:
        problems |= {"413", "422"}
    if method == "post":
        problems.add("422")  # an Idempotency-Key that was used for another body
    return problems


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    """Return it without what says nothing; a parameter that may be left out is never null."""
    schema = dict(parameter["schema"])
    schema |= next((each for each in schema.pop("oneOf", ()) if each != {"type": "null"}), {})
    if "null" in schema.get("type", ()):
        (schema["type"],) = set(schema["type"]) - {"null"}
    schema.pop("description", None)
    for bound in ("minimum", "maximum"):
        if bound in schema:
            schema[bound] = int(schema[bound])
    described: dict[str, Any] = {name: parameter[name] for name in ("name", "in", "description") if name in parameter}
    if parameter["required"]:
        described["required"] = True
    return {**described, "schema": schema}


def _answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Return it with the headers that every answer has; what is no JSON is text."""
    described: dict[str, Any] = {"description": "Done.", "headers": dict(ANSWER_HEADERS)}
    if "content" in answer:
        described["content"] = {
            kind: content if kind == MediaType.JSON else {"schema": TEXT} for kind, content in answer["content"].items()
        }
    return described


def _operation_id(handler: HTTPRouteHandler, method: object, path: object) -> str:
    first, *rest = handler.handler_name.rpartition(".")[2].split("_")
    return first + "".join(each.title() for each in rest)


def _spell_ends(schema: Any) -> None:
    r"""Write the end of each pattern as JSON Schema has it: its ``$`` is what Python's ``\Z`` is."""
    for name, inner in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if name == "pattern" and isinstance(inner, str):
            schema[name] = inner.removesuffix(r"\Z") + "$" * inner.endswith(r"\Z")
        elif isinstance(inner, dict | list):
            _spell_ends(inner)


def _nothing() -> None:
    """Stand in for the services: nothing is asked of the application that is described."""
