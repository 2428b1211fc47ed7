"""From a message to bytes: what JSON has no word for, and what cannot be sent."""

from __future__ import annotations

import json
import sys
import time
from collections import OrderedDict, deque
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from hookline_client.encoding import NESTING_LEVELS_MAX, encode
from hookline_client.errors import InvalidCall


class Colour(Enum):
    """An enum of a program."""

    RED = "red"


class EmptyCell(datetime):
    """Stand where a table lacks a time, as NaT of pandas: a datetime by its type, and no time."""

    def __eq__(self, other: object) -> bool:
        return False

    def astimezone(self, tz: Any = None) -> Any:
        raise ValueError("NaT")

    @property
    def year(self) -> Any:
        return float("nan")


@Integral.register
class Int64:
    """As numpy's."""

    def __int__(self) -> int:
        return 3


@Real.register
class Float32:
    """As numpy's."""

    def __float__(self) -> float:
        return 1.5


class Proxy:
    """As werkzeug's LocalProxy: a class of its own, and all else is that of what it stands for."""

    def __init__(self, value: Any, is_bound: bool = True) -> None:
        self._held = (value, is_bound)

    @property
    def _value(self) -> Any:
        value, is_bound = self._held
        if not is_bound:
            raise RuntimeError("working outside of request context")
        return value

    @property
    def __class__(self) -> Any:
        return type(self._held[0])

    @property
    def __len__(self) -> Any:
        return self._value.__len__

    def __str__(self) -> str:
        return str(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __iter__(self) -> Any:
        return iter(self._value)

    def __getitem__(self, key: Any) -> Any:
        return self._value[key]

    def keys(self) -> Any:
        """Let dict() take it."""
        return self._value.keys()


class Boundless:
    """As an array of numpy without a dimension: it has a length and an iterator, and both raise."""

    def __len__(self) -> int:
        raise TypeError("len() of unsized object")

    def __iter__(self) -> Any:
        raise TypeError("iteration over a 0-d array")


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
        (Decimal("1E+1000000"), None),
        (Decimal("1E+18"), 10**18),
        (Decimal("-9223372036854775808"), -(2**63)),
        (EmptyCell(2026, 11, 20), None),
        (Int64(), 3),
        (Float32(), 1.5),
        (Fraction(1, 4), 0.25),
        (Fraction(10**400), None),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))), "9999-12-31T23:59:59.999-05:00"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=5.5))), "0001-01-01T00:00:00.000+05:30"),
    ],
)
def test_values_are_sent_as_what_they_mean(value: Any, sent: Any) -> None:
    """Alone, and next to a value that takes the slow way."""
    assert json.loads(encode({"v": value})) == {"v": sent}
    assert json.loads(encode({"v": value, "slow": float("nan")})) == {"v": sent, "slow": None}


def test_proxies_are_sent_as_what_they_stand_for() -> None:
    """And null where that is nothing, as after the end of a request; no event is lost for it."""
    for value, sent in [
        (Proxy("de"), "de"),
        (Proxy(True), True),
        (Proxy(3), 3),
        (Proxy(1.5), 1.5),
        (Proxy(["a", 1]), ["a", 1]),
        (Proxy({"a": "b"}), {"a": "b"}),
        ({Proxy("key"): 1, Proxy(2): Proxy("v")}, {"key": 1, "2": "v"}),
        (Proxy("de", is_bound=False), None),
        (Proxy([1], is_bound=False), None),
        (Boundless(), None),
        ([Boundless(), "kept"], [None, "kept"]),
    ]:
        assert json.loads(encode({"v": value})) == {"v": sent}
        assert json.loads(encode({"v": value, "slow": float("nan")})) == {"v": sent, "slow": None}


class Lazy:
    """As Django's Promise: a text that is translated when it is shown, and every method of str."""

    def __str__(self) -> str:
        return "Größe"

    def __iter__(self) -> Any:
        return iter(str(self))

    def __len__(self) -> int:
        return len(str(self))


class Array:
    """As numpy's ndarray: of no dimension it has no length."""

    def __init__(self, value: Any, kind: str = "f") -> None:
        self._value = value
        self.dtype = SimpleNamespace(kind=kind)

    def tolist(self) -> Any:
        """Return it in Python's own types."""
        return self._value

    def __iter__(self) -> Any:
        return iter(self._value)

    def __len__(self) -> int:
        return len(self._value)


def test_what_libraries_have_is_sent_as_what_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins, for neither Django nor numpy is needed: the module that a program has imported is looked at."""
    monkeypatch.setitem(sys.modules, "django.utils.functional", SimpleNamespace(Promise=Lazy))
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(ndarray=Array))  # and nothing else yet: it is imported
    given = {"lazy": Lazy(), Lazy(): 1, "none": Array(1.5), "two": Array([[1, 2], [3, 4]]), "times": Array(5, "M")}
    sent = {"lazy": "Größe", "Größe": 1, "none": 1.5, "two": [[1, 2], [3, 4]], "times": None}
    assert json.loads(encode({"v": given})) == {"v": sent}
    assert json.loads(encode({"v": given, "surrogate": "\ud83d"})) == {"v": sent, "surrogate": "\ud83d"}


def test_an_integer_that_python_does_not_write_is_null() -> None:
    """From some thousand digits on; an older interpreter writes it."""
    sent = json.loads(encode({"huge": 10**5000, "b": 1}), parse_int=str)
    assert (sent["huge"] is None or len(sent["huge"]) == 5001, sent["b"]) == (True, "1")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_time_without_a_zone_that_is_in_no_year_of_utc_costs_no_event(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As datetime.max, which programs write for never: it goes as it is."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        sent = json.loads(encode({"max": datetime.max, "min": datetime.min, "today": datetime(2026, 11, 20)}))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert sent["max"].startswith("9999-12-31T")
    assert sent["min"].startswith("0001-01-01T")
    assert sent["today"].endswith("Z")


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
