"""The shape of a kind's JSON Schema: which keyword holds a list, which a mapping, and how deep it goes.

All that reads a schema relies on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hookline.kinds.catalog import FILE_CHARACTERS_MAX
from hookline.kinds.model import Json

DEPTH_MAX = 8


def shape_problems(schema: Json, place: tuple[str, ...] = (), depth: int = 0) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place within a schema and a sentence for everything of a wrong shape, at any depth."""
    if not isinstance(schema, Mapping):
        yield place, "write a schema here, such as {type: string}"
        return
    if depth > DEPTH_MAX:
        yield place, f"settings are nested at most {DEPTH_MAX} deep"
        return
    for keyword, value in schema.items():
        if keyword in _SHAPES:
            has_shape, wanted = _SHAPES[keyword]
            if not has_shape(value):
                yield (*place, keyword), wanted
    if isinstance(properties := schema.get("properties"), Mapping):
        for name, inner in properties.items():
            yield from shape_problems(inner, (*place, "properties", str(name)), depth + 1)
    for keyword in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(keyword), Mapping):
            yield from shape_problems(inner, (*place, keyword), depth + 1)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_truth(value: Json) -> bool:
    return isinstance(value, bool)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_length(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= FILE_CHARACTERS_MAX


def _is_list(value: Json) -> bool:
    return isinstance(value, list | tuple)


def _is_list_of_texts(value: Json) -> bool:
    return _is_list(value) and all(map(_is_text, value))


def _is_list_of_choices(value: Json) -> bool:
    return _is_list(value) and all(isinstance(each, str | int | float) for each in value)


def _is_mapping(value: Json) -> bool:
    return isinstance(value, Mapping)


def _is_named(value: Json) -> bool:
    return _is_mapping(value) and all(map(_is_text, value))


def _is_default_by(value: Json) -> bool:
    return _is_mapping(value) and _is_text(value.get("setting")) and _is_named(value.get("values"))


def _is_condition(value: Json) -> bool:
    return _is_named(value) and all(map(_is_list, value.values()))


_TEXT = (_is_text, "write text here")
_TRUTH = (_is_truth, "write true or false here")
_NUMBER = (_is_number, "write a number here")
_LENGTH = (_is_length, f"write a whole number from 0 to {FILE_CHARACTERS_MAX} here")

_SHAPES: Mapping[Json, tuple[Callable[[Json], bool], str]] = {
    "type": _TEXT,
    "properties": (_is_named, "write settings by their names here, each with its schema; a number as a name in quotes"),
    "required": (_is_list_of_texts, "write a list of names here, such as [apiKey]"),
    "additionalProperties": (
        lambda value: _is_truth(value) or _is_mapping(value),
        "write true, false or a schema here",
    ),
    "items": (_is_mapping, "write a schema here, such as {type: string}"),
    "enum": (_is_list_of_choices, "write a list of texts, numbers, true or false here"),
    "examples": (_is_list, "write a list here, even for a single example"),
    "minLength": _LENGTH,
    "maxLength": _LENGTH,
    "minItems": _LENGTH,
    "maxItems": _LENGTH,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "pattern": _TEXT,
    "format": _TEXT,
    "title": _TEXT,
    "description": _TEXT,
    "secret": _TRUTH,
    "multiline": _TRUTH,
    "advanced": _TRUTH,
    "defaultBy": (
        _is_default_by,
        "defaultBy holds the name of a setting beside it, and a value for each of its choices: write"
        " {setting: region, values: {us: …, eu: …}}",
    ),
    "when": (_is_condition, "write the name of a setting beside it with a list of its values, such as {auth: [basic]}"),
}
