"""The settings of a kind: what its JSON Schema allows, which of them are secrets, and what is usual.

Of JSON Schema this is understood: ``type`` (object, array, string, integer, number, boolean), ``properties``,
``required``, ``additionalProperties``, ``items``, ``enum``, ``default``, ``minLength``, ``maxLength``, ``pattern``,
``minimum``, ``maximum``, ``minItems``, ``maxItems``, ``format: uri``, and for people ``title``, ``description``,
``examples``, ``multiline``. ``secret: true`` marks a string that is a credential. ``defaultBy: {setting, values}`` is a
default that another setting decides, such as the endpoint of a region; with ``when: {type: [basic]}`` a form shows a
setting only while another beside it has, or a list beside it holds, one of these values. ``advanced: true`` puts a
setting under a closed part of the form. A manifest with anything else is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from hookline.kinds.catalog import kind_of
from hookline.kinds.model import Json, KindSettings
from hookline.kinds.schema_shape import shape_problems

Path: TypeAlias = tuple[str | int, ...]
Schema: TypeAlias = Mapping[str, Json]

STRING_CHARACTERS_MAX = 4_096
"""What a string may have where its schema says nothing."""
ENTRIES_MAX = 100
PATTERN_CHARACTERS_MAX = 200

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum", "default", "minLength"),
        *("maxLength", "pattern", "minimum", "maximum", "minItems", "maxItems", "format", "title", "description"),
        *("examples", "secret", "multiline", "defaultBy", "when", "advanced"),
    }
)


def schema_of(kind: str) -> Schema:
    """Return the schema of a kind's settings; one that allows nothing for a kind without."""
    found = kind_of(kind)
    schema = {} if found is None else found.manifest.settings
    return {"type": "object", **schema}


def schema_problems(schema: Json, path: str = "settings") -> Iterator[str]:
    """Yield what is wrong with a schema itself, whatever it holds, as sentences for who writes a kind."""
    misshapen = [f"{'.'.join((path, *place))}: {text}" for place, text in shape_problems(schema)]
    yield from misshapen or _rule_problems(schema, path)


def _rule_problems(schema: Schema, path: str) -> Iterator[str]:
    for keyword in sorted(map(str, schema.keys() - _KEYWORDS)):
        close = difflib.get_close_matches(keyword, _KEYWORDS, n=1)
        yield f"{path}.{keyword}: {keyword!r} is not understood" + (f"; did you mean {close[0]!r}?" if close else "")
    if schema.get("type", "object") not in _TYPES:
        yield f"{path}.type: write one of {', '.join(_TYPES)} as type"
    if "pattern" in schema:
        try:
            re.compile(schema["pattern"][:PATTERN_CHARACTERS_MAX])
        except (re.error, OverflowError) as error:
            yield f"{path}.pattern: the pattern cannot be read: {error}"
    if schema.get("secret") and schema.get("type") != "string":
        yield f"{path}: only a string can be a secret"
    yield from _default_problems(schema.get("properties", {}), path)
    for name, inner in schema.get("properties", {}).items():
        yield from _rule_problems(inner, f"{path}.properties.{name}")
        if inner.get("advanced") and name in schema.get("required", ()) and "default" not in inner:
            text = "a required setting without a default stands in view; take advanced out, or give it a default"
            yield f"{path}.properties.{name}.advanced: {text}"
        for other in inner.get("when", ()):
            if other not in schema["properties"]:
                yield f"{path}.properties.{name}.when: when names {other!r}, which is no setting beside it"
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from _rule_problems(schema[keyword], f"{path}.{keyword}")


def settings_problems(kind: str, settings: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield the path (``settings.region``) and a sentence for everything that the kind's schema does not allow."""
    yield from _problems(schema_of(kind), settings, "settings")


def with_usual(kind: str, settings: Mapping[str, Json]) -> KindSettings:
    """Return the settings with the usual values of what is left out."""
    return KindSettings(_with_usual(schema_of(kind), settings))


def secrets_in(kind: str, settings: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield each secret with its path; references to client certificates are not among them."""
    found: list[tuple[str, str]] = []

    def note(path: str, value: str) -> str:
        found.append((path, value))
        return value

    change_secrets(kind, settings, note)
    yield from found


def change_secrets(kind: str, settings: Mapping[str, Json], change: Callable[[str, str], str]) -> KindSettings:
    """Return the settings with every secret changed; ``change`` takes its path and the secret.

    Of a kind that is not installed, or that takes webhooks since it was exchanged, nobody knows which are secrets:
    every text counts as one.
    """
    found = kind_of(kind)
    if found is None or found.manifest.form == "webhook":
        return KindSettings(_changed(_ALL_SECRET, settings, "settings", change))
    return KindSettings(_changed(schema_of(kind), settings, "settings", change))


def _problems(schema: Schema, value: Json, path: str) -> Iterator[tuple[str, str]]:
    wanted = schema.get("type", "object")
    if not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean"):
        yield path, f"write {_article(wanted)} here"
        return
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        yield path, f"write one of {', '.join(map(str, choices))}"
    if isinstance(value, str):
        yield from _string_problems(schema, value, path)
    elif isinstance(value, dict):
        yield from _object_problems(schema, value, path)
    elif isinstance(value, list | tuple):
        least, most = schema.get("minItems", 0), schema.get("maxItems", ENTRIES_MAX)
        if not least <= len(value) <= most:
            yield path, f"give {least} to {most} entries, these are {len(value)}"
        for index, inner in enumerate(value[:most]):
            yield from _problems(schema.get("items", {"type": "string"}), inner, f"{path}[{index}]")
    elif not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield path, f"write a number from {schema.get('minimum', '…')} to {schema.get('maximum', '…')}"


def _default_problems(properties: Mapping[str, Json], path: str) -> Iterator[str]:
    for name, rule in properties.items():
        usual = rule.get("defaultBy")
        if usual is None:
            continue
        place = f"{path}.properties.{name}.defaultBy"
        beside = properties.get(usual["setting"])
        choices = None if beside is None else beside.get("enum")
        if choices is None:
            yield f"{place}: defaultBy names a setting beside it that has an enum"
        elif usual["values"].keys() != set(choices):
            yield f"{place}: defaultBy gives a value for each of {', '.join(map(str, choices))}"


def _string_problems(schema: Schema, value: str, path: str) -> Iterator[tuple[str, str]]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", STRING_CHARACTERS_MAX)
    if len(value) > most:
        yield path, f"write at most {most} characters, these are {len(value)}"
    elif len(value) < least:
        yield path, "write something here" if not value else f"write at least {least} characters"
    elif schema.get("secret") and value.startswith(("env:", "file:")):
        return  # what is behind a reference is looked at where it is used
    elif "pattern" in schema and re.fullmatch(schema["pattern"], value) is None:
        examples = schema.get("examples") or ()
        yield path, f"this does not have the form that is needed{f', such as {examples[0]}' if examples else ''}"
    elif schema.get("format") == "uri" and not value.startswith(("http://", "https://")):
        yield path, "write a full URL that begins with http:// or https://"


def _object_problems(schema: Schema, value: Mapping[str, Json], path: str) -> Iterator[tuple[str, str]]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", False)
    for name in schema.get("required", ()):
        if value.get(name) in (None, ""):
            label = properties.get(name, {}).get("title", name)
            yield f"{path}.{name}", f"{label} is needed; add it"
    if len(value) > ENTRIES_MAX:
        yield path, f"give at most {ENTRIES_MAX} entries, these are {len(value)}"
        return
    for name, inner in value.items():
        rule = properties.get(name, others if isinstance(others, dict) else None)
        if rule is not None:
            if inner is not None and not (inner == "" and name not in schema.get("required", ())):
                yield from _problems(rule, inner, f"{path}.{name}")
        elif not others:
            close = difflib.get_close_matches(name, properties, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(properties) or 'none'}"
            yield f"{path}.{name}", f"unknown setting {name!r}; {hint}"


def _with_usual(schema: Schema, value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    made = dict(value)
    for name, rule in schema.get("properties", {}).items():
        if made.get(name) is None and "default" in rule:
            made[name] = rule["default"]
        elif isinstance(made.get(name), dict):
            made[name] = _with_usual(rule, made[name])
    for name, rule in schema.get("properties", {}).items():
        usual = rule.get("defaultBy")
        if usual is not None and made.get(name) in (None, "") and made.get(usual["setting"]) in usual["values"]:
            made[name] = usual["values"][made[usual["setting"]]]
    return made


_ALL_SECRET: Schema = {"secret": True}


def _changed(schema: Schema, value: Json, path: str, change: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return change(path, value) if schema.get("secret") and value else value
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        usual = others if isinstance(others, dict) else schema if schema is _ALL_SECRET else {}
        return {
            name: _changed(properties.get(name, usual), inner, f"{path}.{name}", change)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        rule = schema.get("items", schema if schema is _ALL_SECRET else {})
        return [_changed(rule, inner, f"{path}[{index}]", change) for index, inner in enumerate(value)]
    return value


def _article(type: str) -> str:
    return {"object": "an object", "array": "a list", "integer": "a whole number", "boolean": "true or false"}.get(
        type, f"a {type}" if type == "number" else "text"
    )
