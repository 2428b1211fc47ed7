"""Bodies of requests: a handler's ``data`` says their type, which the API's description takes over.

The framework would turn ``"5"`` into 5 and say less of what is wrong, so bodies are decoded here, by msgspec, strictly.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from litestar._openapi.schema_generation import SchemaCreator
from litestar.dto import AbstractDTO
from litestar.dto._backend import DTOBackend
from litestar.openapi.spec import Reference, Schema
from litestar.params import Body
from litestar.typing import FieldDefinition

from hookline.api.problem import Problem, invalid_body

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
