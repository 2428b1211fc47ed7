"""The manifest of a kind: what people read about it, and in what its requests differ from a plain webhook's."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Line = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Sentence = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Call = Literal["identify", "track", "page", "screen", "group", "alias", "delete"]


class FieldGuide(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One setting as a person is told of it; ``path`` is where it stands in a destination."""

    path: Line
    label: Line
    help: Sentence
    required: bool = False
    secret: bool = False
    example: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Every kind is a variant of the webhook request and has its settings.

    ``publishedName`` is what the ``integrations`` object of an event calls it. ``calls`` are the types that
    are of use to it; all are sent, filters keep others away. ``urlPrefixes`` are what its URLs begin with (none: any),
    ``headers`` are sent with each of its requests.
    """

    name: Line
    published_name: Line
    description: Sentence
    mode: Literal["cloud"] = "cloud"
    component: Literal["server"] = "server"
    source_types: tuple[Literal["web", "mobile", "server"], ...] = ("web", "mobile", "server")
    calls: tuple[Call, ...]
    fields: Annotated[tuple[FieldGuide, ...], msgspec.Meta(max_length=50)] = ()
    url_prefixes: Annotated[tuple[Line, ...], msgspec.Meta(max_length=20)] = ()
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=20)] = {}
