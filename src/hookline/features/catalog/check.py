"""Check a kind that somebody writes: its ``kind.yaml``, and the folder around it. Each fault says what to do."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from hookline.api.problem import invalid_body, pointer_of
from hookline.connections.request_check import request_problems
from hookline.kinds.catalog import FILE_CHARACTERS_MAX, MANIFEST
from hookline.kinds.headers import check_static_headers
from hookline.kinds.model import Json, Manifest
from hookline.kinds.schema_shape import shape_problems
from hookline.kinds.settings import Schema, schema_problems

CALL_ORDER = ("identify", "track", "page", "screen", "group", "alias", "delete")
_SETTING = re.compile(r"settings\.([A-Za-z0-9_]+)")


class KindFault(NamedTuple):
    """One thing wrong with a kind: where (a file, or a JSON pointer into ``kind.yaml``), and what to do."""

    pointer: str
    detail: str


def manifest_faults(text: str) -> tuple[Manifest | None, list[KindFault]]:
    """Return what a ``kind.yaml`` says, None where it cannot be read, and everything wrong with it."""
    if len(text) > FILE_CHARACTERS_MAX:
        return None, [KindFault("", f"the file has more than {FILE_CHARACTERS_MAX} characters; shorten it")]
    from hookline.connections.file_shape import YamlTree  # here: YAML is wanted rarely

    # A few aliases may stand for billions of values, and a number in base 60 takes the square of its length.
    for problem in YamlTree(text, FILE_CHARACTERS_MAX).problems:
        line = f"line {problem.line}: " if problem.line else ""
        return None, [KindFault("", f"this is not valid YAML: {line}{problem.message}")]
    try:
        manifest = msgspec.yaml.decode(text.encode("utf-8", "replace"), type=Manifest)
    except msgspec.ValidationError as error:
        (said,) = invalid_body(error).errors
        place = str(error).partition(" - at ")[2]
        allowed = _allowed(place) if said.detail.startswith("Invalid enum value") else []
        return None, [KindFault(said.pointer, said.detail + (f"; write {' or '.join(allowed)}" if allowed else ""))]
    except (msgspec.DecodeError, ValueError) as error:
        return None, [KindFault("", f"this is not valid YAML: {str(error).splitlines()[0]}")]
    found: dict[KindFault, None] = {}
    for fault in _faults(manifest):
        found[fault] = None
    return manifest, list(found)


def _allowed(place: str) -> list[str]:
    """Return the values that a manifest may have at a place, as msgspec writes it: none where any goes."""
    at = [msgspec.inspect.type_info(Manifest)]
    for step in re.findall(r"[^.$`\[\]]+|\.\.\.", place):
        at = [inner for each in at for inner in _inside(each, step)]
    return [str(value) for each in at if isinstance(each, msgspec.inspect.LiteralType) for value in each.values]


def _inside(type: msgspec.inspect.Type, step: str) -> Iterator[msgspec.inspect.Type]:
    """Yield what a type holds at one step of a place; a choice of types is each of them."""
    if isinstance(type, msgspec.inspect.StructType):
        found = [field.type for field in type.fields if field.encode_name == step]
    elif isinstance(type, msgspec.inspect.DictType):
        found = [type.value_type]
    elif isinstance(type, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
        found = [type.item_type]
    else:
        found = []
    for each in found:
        yield from each.types if isinstance(each, msgspec.inspect.UnionType) else (each,)


def folder_faults(folder: Path) -> tuple[Manifest | None, list[KindFault]]:
    """Return the manifest of a kind's folder, and everything wrong with it and with what stands beside it."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        detail = f"there is no {MANIFEST} in {folder}; hookline kinds new NAME makes a folder to start from"
        return None, [KindFault(MANIFEST, detail)]
    except (OSError, UnicodeDecodeError) as error:
        return None, [KindFault(MANIFEST, f"{MANIFEST} cannot be read: {error}")]
    manifest, faults = manifest_faults(text)
    faults += _file_faults(folder)
    if manifest is not None and manifest.sink is not None and not _module_exists(manifest.sink):
        faults.append(KindFault("/sink", f"there is no module {manifest.sink!r}; install the package that has it"))
    return manifest, faults


def example_settings(schema: Schema) -> dict[str, Json]:
    """Return settings that a schema allows, as far as its defaults, choices and examples tell."""
    made: dict[str, Json] = {}
    required = schema.get("required", ())
    for name, rule in schema.get("properties", {}).items():
        value = _example(rule)
        if value is not None and (name in required or rule.get("type") != "object"):
            made[name] = value
    return made


def _example(rule: Schema) -> Json:
    if rule.get("examples"):
        return rule["examples"][0]
    if "default" in rule:
        return rule["default"]
    if rule.get("enum"):
        return rule["enum"][0]
    kind = rule.get("type", "object")
    if kind == "object":
        return example_settings(rule)
    if kind == "array":
        return []
    if kind == "boolean":
        return False
    if kind in ("integer", "number"):
        return rule.get("minimum", 1)
    if rule.get("format") == "uri":
        return "https://example.com"
    return "example".ljust(rule.get("minLength", 0), "x")[: rule.get("maxLength", 4_096)]


def _faults(manifest: Manifest) -> Iterator[KindFault]:
    yield from _card_faults(manifest)
    misshapen = [KindFault("/".join(("/settings", *place)), text) for place, text in shape_problems(manifest.settings)]
    yield from misshapen
    if misshapen:
        return
    for problem in schema_problems({"type": "object", **manifest.settings}):
        path, _, detail = problem.partition(": ")
        yield KindFault(pointer_of(path), detail)
    if manifest.form == "webhook":
        try:
            check_static_headers(manifest.headers)
        except ValueError as error:
            yield KindFault("/headers", str(error))
        if manifest.settings:
            detail = "a webhook has the settings of webhooks; remove these, or write requests instead of webhook"
            yield KindFault("/settings", detail)
        return
    yield from _setting_faults(manifest.settings, "/settings")
    if manifest.form == "requests":
        yield from _request_faults(manifest)


def _card_faults(manifest: Manifest) -> Iterator[KindFault]:
    if not manifest.calls:
        yield KindFault("/calls", f"say which calls it takes, such as calls: [{', '.join(CALL_ORDER[:2])}]")
    if manifest.webhook is None and manifest.requests is None and manifest.sink is None and manifest.settings:
        yield KindFault("", "say how events leave it: add requests, a list, or sink, the name of a module")


def _setting_faults(schema: Schema, pointer: str) -> Iterator[KindFault]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in properties:
            yield KindFault(
                f"{pointer}/required", f"{name!r} is required but is not a property; add it, or remove it here"
            )
    for name, rule in properties.items():
        place = f"{pointer}/properties/{name}"
        if not rule.get("title"):
            yield KindFault(place, "add a title: people read it beside the field")
        if "pattern" in rule and not (rule.get("examples") or "default" in rule):
            yield KindFault(place, "add examples: people need to see what the pattern asks for")
        yield from _setting_faults(rule, place)


def _request_faults(manifest: Manifest) -> Iterator[KindFault]:
    known = manifest.settings.get("properties", {})
    if manifest.auth is not None:
        for name in sorted({*_SETTING.findall(msgspec.json.encode(manifest.auth).decode())} - known.keys()):
            yield KindFault("/auth", _no_setting(name))
    settings = example_settings(manifest.settings)
    for _, path, detail in request_problems(
        manifest.requests or (), "requests", manifest.settings, settings, _no_setting
    ):
        yield KindFault(pointer_of(path), detail)


def _no_setting(name: str) -> str:
    return f"it reads settings.{name}, which is not a setting; add it to settings"


def _file_faults(folder: Path) -> Iterator[KindFault]:
    for name, why in (
        ("guide.md", "people read it beside the form while they set a destination up"),
        ("icon.svg", "the catalog shows it; draw one of your own, 24 by 24"),
    ):
        file = folder / name
        if not file.is_file():
            yield KindFault(name, f"there is no {name}; {why}")
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            yield KindFault(name, f"{name} cannot be read: {error}")
            continue
        if len(text) > FILE_CHARACTERS_MAX:
            yield KindFault(name, f"{name} is longer than {FILE_CHARACTERS_MAX} characters; shorten it")
        elif not text.strip():
            yield KindFault(name, f"{name} is empty; {why}")
        elif name == "icon.svg" and not text.lstrip().startswith("<svg"):
            yield KindFault(name, "begin the icon with <svg, without a declaration or a comment before it")
        elif name == "icon.svg" and re.search(r"<script|\son[a-z]+\s*=|href\s*=\s*[\"']https?:", text, re.IGNORECASE):
            yield KindFault(name, "an icon has no scripts and loads nothing; remove that")
    if not (folder / "__init__.py").is_file():
        yield KindFault("__init__.py", "add an empty __init__.py: the folder is found as a Python package")


def _module_exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False
