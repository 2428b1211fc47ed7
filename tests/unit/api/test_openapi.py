"""The API's description says what the API does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from litestar import Litestar
from litestar.di import Provide
from litestar.routes import HTTPRoute

from hookline.control.app import api
from tests.unit.api.described import described
from tests.unit.control.running import Running, destination, source


def served() -> set[tuple[str, str]]:
    """Every method and path below /api/v1, names of path parameters left out."""
    nothing = Provide(lambda: None, sync_to_thread=False)
    app = Litestar([api()], dependencies={"services": nothing}, openapi_config=None)
    routes = [route for route in app.routes if isinstance(route, HTTPRoute)]
    return {
        (method.lower(), re.sub(r"\{[^}]*\}", "{}", route.path))
        for route in routes
        for method in route.methods
        if method != "OPTIONS"
    }


def references(node: Any) -> Iterator[str]:
    """Every $ref in the document."""
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def test_every_route_is_described_and_nothing_else() -> None:
    """The table of operations and the routes are the same set."""
    paths = described()["paths"]
    assert served() == {
        (method, re.sub(r"\{[^}]*\}", "{}", path)) for path, methods in paths.items() for method in methods
    }


def test_it_is_served_without_a_token(asked: Running) -> None:
    """Tools fetch it openly, as JSON, in version 3.1."""
    answer = asked.call("GET", "/api/openapi.json", token=False)
    assert (answer.status, answer.json["openapi"]) == (200, "3.1.0")


def test_every_reference_leads_somewhere() -> None:
    """No $ref is left hanging."""
    schemas = described()["components"]["schemas"]
    names = {reference.removeprefix("#/components/schemas/") for reference in references(described())}
    assert names <= set(schemas)
    assert {"Source", "Destination", "EventStatus", "DeadLetter", "ProblemBody"} <= names


def test_operation_ids_are_unique() -> None:
    """Generated clients name their methods after them."""
    ids = [each["operationId"] for methods in described()["paths"].values() for each in methods.values()]
    assert len(ids) == len(set(ids))


def test_answers_have_the_fields_that_are_described(control: Running) -> None:
    """What the API returns has exactly the described properties."""
    schemas = described()["components"]["schemas"]
    made = control.api("POST", "/sources", source()).json
    assert set(made) == set(schemas["Source"]["properties"])
    made = control.api("POST", "/destinations", destination(secret="s3cret-long-enough")).json
    assert set(made) == set(schemas["Destination"]["properties"])
    kind = control.api("GET", "/catalog").json["items"][0]
    assert set(kind) == set(schemas["CatalogKind"]["properties"])
    assert kind["publishedName"] == "Webhooks"
