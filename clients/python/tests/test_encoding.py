"""From a message to bytes: what JSON has no word for, and what cannot be sent."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hookline_client.encoding import NESTING_LEVELS_MAX, encode
from hookline_client.errors import InvalidCall


class Colour(Enum):
    """An enum of a program."""

    RED = "red"


class Opaque:
    """A value that JSON cannot hold."""


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (datetime(2026, 11, 20, 7, tzinfo=timezone.utc), "2026-11-20T07:00:00.000Z"),
        (date(2026, 11, 20), "2026-11-20T00:00:00.000Z"),
        (Decimal("12.50"), 12.5),
        (Decimal("3"), 3),
        (Decimal("NaN"), None),
        (UUID("6f3c0bd4-64a5-4d5c-9a3e-0c4f1c2c2b9a"), "6f3c0bd4-64a5-4d5c-9a3e-0c4f1c2c2b9a"),
        (Colour.RED, "red"),
        ({1}, [1]),
        (deque([1, 2]), [1, 2]),
        ((1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (b"bytes", "bytes"),
        (Path("/a/b"), "/a/b"),
        (float("nan"), None),
        (float("-inf"), None),
        ({1: "a", None: "b", (1, 2): "c", Colour.RED: "d"}, {"1": "a", "null": "b", "(1, 2)": "c", "red": "d"}),
        ("\ud83d", "\ud83d"),
        ("é\u2028😀", "é\u2028😀"),
        (2**70, 2**70),
    ],
)
def test_values_are_sent_as_what_they_mean(value: Any, sent: Any) -> None:
    """Alone, and next to a value that takes the slow way."""
    assert json.loads(encode({"v": value})) == {"v": sent}
    assert json.loads(encode({"v": value, "slow": float("nan")})) == {"v": sent, "slow": None}


def test_messages_are_compact_utf8() -> None:
    """Bytes count against the limit, so none is wasted, also next to a value that takes the slow way."""
    assert encode({"a": "é", "b": [1, 2]}) == '{"a":"é","b":[1,2]}'.encode()
    assert encode({"a": "é", "b": float("nan")}) == '{"a":"é","b":null}'.encode()


def test_an_unknown_value_is_null_and_raises_when_strict() -> None:
    """One value costs neither the event nor the caller; a test is told."""
    assert encode({"a": Opaque(), "b": 1}) == b'{"a":null,"b":1}'
    with pytest.raises(InvalidCall, match="Opaque"):
        encode({"a": Opaque()}, strict=True)


def test_what_is_circular_or_too_deep_is_refused() -> None:
    """A loop ends with a code, not with the stack."""
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(InvalidCall) as raised:
        encode(loop)
    assert raised.value.code == "not_serialisable"
    deep: Any = Opaque()
    for _ in range(NESTING_LEVELS_MAX + 1):
        deep = [deep]
    with pytest.raises(InvalidCall):
        encode({"deep": deep})


def test_what_is_too_deep_is_refused_though_it_is_json() -> None:
    """The service would refuse the whole request for it; many things beside each other are not deep."""
    deep: Any = 1
    for _ in range(NESTING_LEVELS_MAX + 1):
        deep = {"deep": deep}
    with pytest.raises(InvalidCall):
        encode(deep)
    wide = {"wide": [{"n": [number]} for number in range(NESTING_LEVELS_MAX)]}
    assert json.loads(encode(wide)) == wide


def test_a_plain_interpreter_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the C encoder the result is the same."""
    import json.encoder

    from hookline_client import encoding

    message = {"a": ["é", 1.5, None, True, {"b": "\n"}]}
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    assert encoding._writer()(message) == encoding._write(message)
