"""JSON of strangers decoded to plain values: every number takes about the same time to read."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect

import hookline
from hookline.events import untyped

OURS = {
    "hookline.connections.state._decode_lane": "written by us",
    "hookline.deliver.cluster.agreement.decode": "written by us",
    "hookline.features.destinations.service._lane": "written by us",
    "hookline.features.destinations.service._request": "written by us",
    "hookline.features.privacy.forgetting._request": "written by us",
    "hookline.people.store.history._decode": "numbers without an exponent",
    "hookline.replays.store._request": "written by us",
}
"""Decoders that may read numbers as msgspec does, and why."""


def test_strangers_numbers_are_read_in_the_same_time_everywhere() -> None:
    """Whatever decodes numbers with a fraction or an exponent has ``read_number`` for it, or one of ``canonical``."""
    for module in pkgutil.walk_packages(hookline.__path__, "hookline."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    plainly = {name for name, decoder in _decoders() if not decoder.float_hook and _reads_floats(decoder.type)}
    assert plainly == OURS.keys()


@pytest.mark.parametrize("text", ["1e308", "-1.5", "1E2", "2.2250738585072011e-308", "0.1", "1.0"])
def test_a_number_reads_as_it_did(text: str) -> None:
    """The value is the one that Python's own reader gives."""
    assert untyped.decode(text.encode()) == json.loads(text)


@pytest.mark.parametrize("text", [b"1e400", b'{"a": [-1e309]}'])
def test_a_number_beyond_any_range_cannot_be_read(text: bytes) -> None:
    """As msgspec has it."""
    for decode in (untyped.decode, msgspec.json.decode):
        with pytest.raises(msgspec.ValidationError):
            decode(text)


@pytest.mark.parametrize(
    ("written", "value", "text"),
    [(b'"u1"', "u1", "u1"), (b"7", 7, "7"), (b"1.50", 1.5, "1.5"), (b"1e21", 1e21, "1e+21"), (b"null", None, "")],
)
def test_an_id_is_a_text_or_a_number(written: bytes, value: object, text: str) -> None:
    """Numbers are written as JavaScript writes them."""
    found = untyped.scalar(msgspec.Raw(written))
    assert found == value
    assert untyped.text(found) == text


@pytest.mark.parametrize("written", [b"true", b"false", b"{}", b"[1]", b"[" * 100_000, b"1e400", b""])
def test_what_is_neither_is_no_id(written: bytes) -> None:
    """It is refused without a look inside."""
    with pytest.raises(msgspec.ValidationError):
        untyped.scalar(msgspec.Raw(written))


def _decoders() -> Iterator[tuple[str, msgspec.json.Decoder[object]]]:
    """Yield the decoders that modules keep, each once, by a name."""
    seen: set[int] = set()
    for module_name, module in sorted(sys.modules.items()):
        if not module_name.startswith("hookline."):
            continue
        for name, value in list(vars(module).items()):
            decoder = value if isinstance(value, msgspec.json.Decoder) else getattr(value, "__self__", None)
            if isinstance(decoder, msgspec.json.Decoder) and id(decoder) not in seen:
                seen.add(id(decoder))
                yield f"{module_name}.{name}", decoder


def _reads_floats(type: object) -> bool:
    """Return whether something within may be a number with a fraction: of a float's own type, or of any."""
    waiting, seen = [inspect.type_info(type)], set[object]()
    while waiting:
        info = waiting.pop()
        if isinstance(info, inspect.AnyType | inspect.FloatType) or getattr(info, "cls", None) is object:
            return True
        if isinstance(info, inspect.StructType):
            if info.cls not in seen:
                seen.add(info.cls)
                waiting += [field.type for field in info.fields]
            continue
        for name in ("item_type", "item_types", "key_type", "value_type", "types"):
            inner = getattr(info, name, ())
            waiting += inner if isinstance(inner, tuple) else [inner]
    return False
