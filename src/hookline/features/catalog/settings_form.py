"""The form of a kind's settings, made from its JSON Schema: which field stands for what, with what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from hookline.kinds.model import Json
from hookline.kinds.settings import Schema

Shape = Literal[
    "rows", "group", "secret", "select", "switch", "number", "choices", "lines", "json", "area", "url", "text"
]


class FormField(NamedTuple):
    """One field, or a ``group`` of them.

    ``path`` is where it stands in a destination; ``value`` what is stored, a secret masked. ``shown_if`` is JSON: the
    fields, and the values of which one must be chosen for this field to show; empty where it always does. ``rows`` are
    names and values of one's own, ``secret`` says that these values are secrets. ``choices`` are those of a list that
    may hold certain values. An ``advanced`` field stands under a closed part of the form; ``is_set`` if it is not as
    usual.
    """

    path: str
    shape: Shape
    title: str
    hint: str
    value: Json
    required: bool
    options: Sequence[str | tuple[str, str]] = ()
    placeholder: str = ""
    shown_if: str = ""
    fields: Sequence[FormField] = ()
    one: str = ""
    secret: bool = False
    advanced: bool = False
    is_set: bool = False


def settings_form(schema: Schema, values: Mapping[str, Json], path: str = "settings") -> list[FormField]:
    """Return the fields of a schema in its order, with the values that are stored."""
    required = schema.get("required", ())
    return [
        _field(rule, f"{path}.{name}", name, values.get(name), name in required, path)
        for name, rule in schema.get("properties", {}).items()
    ]


def _field(rule: Schema, path: str, name: str, value: Json, required: bool, around: str) -> FormField:
    title = rule.get("title", name)
    examples = rule.get("examples") or ()
    hint = rule.get("description", "") + (f" Such as {examples[0]}." if examples else "")
    when = {f"{around}.{other}": values for other, values in rule.get("when", {}).items()}
    made = FormField(
        path=path,
        shape="text",
        title=title,
        hint=hint.strip(),
        value=rule.get("default", "") if value is None else value,
        required=required,
        placeholder=str(examples[0]) if examples else "",
        shown_if=msgspec.json.encode(when).decode() if when else "",
        advanced=bool(rule.get("advanced")),
        is_set=bool(value) and value != rule.get("default"),
    )
    kind = rule.get("type", "object")
    if kind == "object":
        return _of_object(made, rule, value, path)
    if kind == "array":
        return _of_list(made, rule, value)
    if rule.get("secret"):
        return made._replace(shape="secret", value=value or "")
    if "enum" in rule:
        always = required or "default" in rule
        options = [str(each) for each in rule["enum"]]
        return made._replace(
            shape="select", required=always, options=options if always else [("", "not set"), *options]
        )
    if kind == "boolean":
        return made._replace(shape="switch")
    if kind in ("integer", "number"):
        return made._replace(shape="number")
    if rule.get("multiline"):
        return made._replace(shape="area")
    return made._replace(shape="url" if rule.get("format") == "uri" else "text")


def _of_object(made: FormField, rule: Schema, value: Json, path: str) -> FormField:
    others = rule.get("additionalProperties")
    if isinstance(others, dict) and not rule.get("properties"):
        one = made.title.lower().removesuffix("s")
        rows = msgspec.json.encode(value or {}).decode()
        return made._replace(shape="rows", value=rows, one=one, secret=bool(others.get("secret")))
    stored = value if isinstance(value, Mapping) else {}
    return made._replace(shape="group", value="", fields=settings_form(rule, stored, path))


def _of_list(made: FormField, rule: Schema, value: Json) -> FormField:
    listed = value if isinstance(value, list | tuple) else rule.get("default", ())
    items = rule.get("items", {"type": "string"})
    if "enum" in items:
        return made._replace(shape="choices", value=listed, options=[str(each) for each in items["enum"]])
    if items.get("type") == "string":
        hint = f"{made.hint} One per line.".strip()
        return made._replace(shape="lines", value="\n".join(map(str, listed)), hint=hint)
    hint = f"{made.hint} A list, as JSON.".strip()
    return made._replace(shape="json", value=msgspec.json.encode(listed).decode() if listed else "", hint=hint)
