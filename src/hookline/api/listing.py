"""Take what calls are asked with, and answer with lists: bodies held to their type, parameters that calls share, and
pages of a list with a cursor.

The framework would turn ``"5"`` into 5 and say less of what is wrong, so bodies are decoded here, by msgspec, strictly.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
from litestar import Response
from litestar._openapi.schema_generation import SchemaCreator
from litestar.dto import AbstractDTO
from litestar.dto._backend import DTOBackend
from litestar.openapi.spec import Reference, Schema
from litestar.params import Body, PathParameter, QueryParameter
from litestar.typing import FieldDefinition

from hookline.api.calls import current_call
from hookline.api.problem import Problem, invalid_body
from hookline.insights.series import Range
from hookline.replays.model import Moment

MERGE_PATCH = "application/merge-patch+json"
Patch = Annotated[dict[str, Any], Body(media_type=MERGE_PATCH)]
"""JSON Merge Patch (RFC 7396) of whatever the handler changes."""


class FieldsOf(NamedTuple):
    """Annotation of a body that is decoded as a dict, because what is left out is filled in, and described as this."""

    kind: type[msgspec.Struct]


class JsonBody(AbstractDTO[Any]):
    """Decodes ``data``; an empty body is its default, where it has one."""

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: type[DTOBackend] | None = None
    ) -> None:
        """Do nothing: msgspec needs no other class to decode into."""

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: SchemaCreator
    ) -> Reference | Schema:
        """Describe the body."""
        described = [each.kind for each in field_definition.metadata if isinstance(each, FieldsOf)]
        kind = described[0] if described else _kind(field_definition)
        return schema_creator.for_field_definition(FieldDefinition.from_annotation(kind))

    def decode_bytes(self, value: bytes) -> Any:
        """Return the body; raise Problem for what is wrong with it."""
        field = self.asgi_connection.route_handler.parsed_data_field
        try:
            return msgspec.json.decode(value, type=_kind(field))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise invalid_body(error) from None
        except RecursionError:
            raise Problem(400, "malformed_json", "The body is nested too deeply.") from None


def _kind(field: FieldDefinition) -> Any:
    """Return the type of the body: ``| None`` says that it may be empty, not null."""
    return (
        next(each.annotation for each in field.inner_types if not each.is_none_type)
        if field.is_optional
        else field.annotation
    )


LIMIT_DEFAULT = 50
LIMIT_MAX = 200
CURSOR_CHARACTERS_MAX = 20_000

T = TypeVar("T")

Limit = Annotated[int, QueryParameter(ge=1, le=LIMIT_MAX, description="How many items to return at most.")]
After = Annotated[
    str | None,
    QueryParameter(
        max_length=CURSOR_CHARACTERS_MAX, description="The `after` of the last answer; leave it out to begin."
    ),
]


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """Some items and where the next ones begin; ``after`` is null on the last page."""

    items: Sequence[T]
    after: str | None = None


def number_after(after: str | None, prefix: str = "") -> int | None:
    """Return the number that a list by numbers, or by ids with a prefix, gave as its ``after``; Problem for anything
    else."""
    number = None if after is None else id_number(after, prefix)
    if after is not None and number is None:
        raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
    return number


def by_id(objects: Sequence[T], ids: Sequence[str], limit: int, after: str | None) -> Listing[T]:
    """Return one page of objects in the order of their ids."""
    ordered = sorted(zip(ids, objects, strict=True), key=lambda pair: pair[0])
    rest = [pair for pair in ordered if after is None or pair[0] > after]
    page = rest[:limit]
    return Listing([each for _, each in page], page[-1][0] if len(rest) > limit else None)


def id_number(id: str, prefix: str = "") -> int | None:
    """Return the number in an id such as ``u7``, None when it is no such id."""
    digits = id.removeprefix(prefix)
    good = id.startswith(prefix) and digits.isdecimal() and digits.isascii() and len(digits) < 19
    return int(digits) if good and (digits[0] != "0" or digits == "0") else None  # an object has one id


R = TypeVar("R")
_TAG_CHARACTERS = 16


def etag_of(value: Any) -> str:
    """Return the tag of anything that JSON can hold."""
    return f'"{sha256(msgspec.json.encode(value)).hexdigest()[:_TAG_CHARACTERS]}"'


def tagged(body: R, etag: str, status: int = 200, headers: dict[str, str] | None = None) -> Response[R]:
    """Return an answer that says which state of the object it shows."""
    return Response(body, status_code=status, headers={"ETag": etag, **(headers or {})})


def has_condition() -> bool:
    """Return whether the request says which state of the object it is meant for."""
    return _condition() is not None


def require_match(etag: str | None) -> None:
    """Raise Problem (412) when the request is meant for another state of the object; None: there is no object."""
    wanted = _condition()
    if wanted is None:
        return
    tags = [tag.strip() for tag in wanted.split(",")]
    if etag is None or not ("*" in tags or etag in tags):
        detail = "This was changed meanwhile; read it again and repeat the change on what it is now."
        raise Problem(412, "changed_meanwhile", detail)


def _condition() -> str | None:
    call = current_call()
    return None if call is None else call.headers.get("if-match")


TEXT_CHARACTERS_MAX = 1_000
TIME = {"format": "date-time"}

Id = Annotated[str, PathParameter(name="id")]
OfSource = Annotated[
    str | None, QueryParameter(name="source", max_length=TEXT_CHARACTERS_MAX, description="Only this source (its id).")
]
OfDestination = Annotated[
    str | None,
    QueryParameter(name="destination", max_length=TEXT_CHARACTERS_MAX, description="Only this destination (its id)."),
]
OfType = Annotated[
    str | None, QueryParameter(name="type", max_length=TEXT_CHARACTERS_MAX, description="Only this message type.")
]
OfEvent = Annotated[
    str | None,
    QueryParameter(
        name="event",
        max_length=TEXT_CHARACTERS_MAX,
        description="Only track calls of this event, or pages and screens of this name.",
    ),
]
UserId = Annotated[
    str | None,
    QueryParameter(
        name="userId", min_length=1, max_length=TEXT_CHARACTERS_MAX, description="The person with this user id."
    ),
]
AnonymousId = Annotated[
    str | None,
    QueryParameter(
        name="anonymousId",
        min_length=1,
        max_length=TEXT_CHARACTERS_MAX,
        description="The person this anonymous id belongs to, instead of `userId`.",
    ),
]
Back = Annotated[Range, QueryParameter(name="range", description="How far back.")]


def milliseconds(name: str, text: str | None) -> int | None:
    """Return the moment since the epoch, None when none is given; raise Problem that names the parameter."""
    if text is None:
        return None
    try:
        moment: datetime = msgspec.convert(text, Moment)
    except msgspec.ValidationError:
        detail = f"Write {name} as ISO 8601 with an offset, such as 2026-11-20T07:00:00Z."
        raise Problem(400, "invalid_parameter", detail) from None
    return int(moment.timestamp() * 1000)
