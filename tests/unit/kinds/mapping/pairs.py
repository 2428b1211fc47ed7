"""Made-up mappings with events, the same for the same number, for comparing with the oracle.

They leave out what is different on purpose (the page on mappings lists it): names that every object of JavaScript has,
braces in values of events and placeholders within placeholders, and mistakes in what is never reached or where the
oracle does not look.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = Any

NAMES = ("a", "b", "name", "list", "0", "1", "10", "2b", "a b", "größe", "length", "x-y", "", "ID", "deep", "$")
TEXTS = (
    *("", "a", "A b", "Ada", "STRASSE", "straße", "İ", "ΟΔΟΣ", "ὈΔΥΣΣΕΎΣ", "Ærø", "😀", "x😀y", "\ud83d", "\ude00z"),
    *(
        "a.b",
        "$.a.b",
        "1",
        "1.0",
        "null",
        "true",
        "[1,2]",
        '{"a":{"b":1}}',
        '{"1":1,"0":{"b":[null]}}',
        '"q"',
        "\n\t\x00",
    ),
    *(
        "aaaa",
        "AaAa",
        "a-a-a",
        "ſsS",
        "K",
        "µΜμ",
        "$&",
        "  ",
        "[",
        "]",
        "'",
        '"',
        "e\u0301",
        "\u2028",
        "a/b~c",
        "-0",
        "1e400",
    ),
    *(
        "12345678901234567890",
        '{"n":12345678901234567890}',
        '{"a":1,"a":2}',
        "01",
        "NaN",
        " 7 ",
        "\ufeff1",
        '"\\ud83d"',
        '["\ud83d\\ude00"]',
        '{"\ud83d\\ude00":{"a":1}}',
    ),
)
NUMBERS = (
    *(
        0,
        1,
        -1,
        7,
        42,
        0.1,
        -0.5,
        1.5,
        5.0,
        100.0,
        1e21,
        1e20,
        123456789012345680000.0,
        1e-7,
        1e-6,
        1.5e-5,
        0.0001,
        1e15,
    ),
    *(2**53, 2**53 + 1, -(2**53) - 1, 12345678901234567890, 1e300, 5e-324, 1e22, 33.63, 4.35, 1e16, 9007199254740993.0),
)
TEMPLATE_PARTS = ("", " ", "x", "{", "}", "{ }", "{{}}", "{{ }}", "}}", "}}}", "€", "$.", "-")
PATTERNS = ("a", "A", ".", "-", "aa", "$", "[", "\\", " ", "s", "😀", "\ud83d", "\ude00", "K", "\n", "(a|b)*", "é", "σ")
REPLACEMENTS = ("", "b", "$&", "$$", "$`", "$'", "$1", "$0", "$<a>", "\\1", "$", "$$&", "😀", "\ude00", "x$&y")
MISTAKES: tuple[Json, ...] = (
    *(
        {"@path": 5},
        {"@path": None},
        {"@path": {"a": 1}},
        {"@template": []},
        {"@if": {}},
        {"@if": []},
        {"@if": {"exists": 0}},
    ),
    *({"@case": {"value": "a"}}, {"@case": "a"}, {"@case": {"operator": "swap", "value": "a"}}, {"@replace": {}}),
    *({"@replace": {"pattern": "", "value": "a"}}, {"@replace": {"pattern": "a" * 11, "value": "a"}}),
    *(
        {"@replace": {"pattern": "a", "value": "b", "replacement": "c" * 11}},
        {"@replace": {"pattern": 1, "value": "b"}},
    ),
    *({"@replace": {"pattern": "a", "value": "b", "global": 1}}, {"@replace": {"pattern": "a"}}, {"@arrayPath": "$.a"}),
    *(
        {"@arrayPath": []},
        {"@arrayPath": [5]},
        {"@flatten": {"value": {}}},
        {"@flatten": {"separator": ".", "values": {}}},
    ),
    *(
        {"@flatten": {"separator": "", "value": {}}},
        {"@json": {"mode": "encode"}},
        {"@json": {"mode": "x", "value": "a"}},
    ),
    *({"@json": {"mode": "encode", "value": ""}}, {"@json": {"value": "a"}}, {"@merge": {"direction": "left"}}),
    *(
        {"@merge": {"objects": []}},
        {"@merge": {"direction": "up", "objects": []}},
        {"@merge": {"direction": "left", "objects": {}}},
    ),
    *(
        {"@merge": {"direction": "left", "objects": ["a"]}},
        {"@transform": {"apply": {}}},
        {"@transform": {"mapping": {}}},
    ),
    *(
        {"@transform": {"apply": [], "mapping": {}}},
        {"@pth": "$.a"},
        {"@": 1},
        {"@path": "$.a", "@if": {}},
        {"@path": "$.a", "b": 1},
    ),
    *(
        {"@path": {"@literal": 5}},
        {"@template": {"@literal": None}},
        {"@path": {"@if": {"exists": {"@path": "$.none"}, "then": "a"}}},
    ),
)
"""Refused by the oracle wherever it reaches them."""


def pair(number: int) -> tuple[Json, Json]:
    """Return the mapping and the event of a number."""
    return Pairs(Random(number)).pair()


class Pairs:
    """Make one mapping with one event."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._event: Json = {}
        self._item: Json = None
        """What paths lead through at present, for finding some that lead somewhere."""
        self._directives: tuple[Callable[[int, bool], Json], ...] = (
            *(self._path, self._path, self._path, self._template, self._template, self._if, self._if, self._case),
            *(self._replace, self._replace, self._array_path, self._array_path, self._merge, self._flatten, self._json),
            *(self._transform, self._exclude_when_null, self._literal),
        )

    def pair(self) -> tuple[Json, Json]:
        """Return the two."""
        self._event = {name: self._value(3) for name in self._some(NAMES, 8)}
        self._item = self._event
        fields = {name: self._part(3, True) for name in self._some(NAMES[:8], 4) or ["a"]}
        return (self._directive(4, True) if self._chance(0.15) else fields), self._event

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _some(self, of: tuple[Json, ...], at_most: int) -> list[Json]:
        return self._random.sample(of, self._random.randint(0, at_most))

    def _one(self, *of: Json) -> Json:
        return self._random.choice(of)

    def _scalar(self) -> Json:
        return self._one(None, True, False, self._one(*TEXTS), self._one(*TEXTS), self._one(*NUMBERS))

    def _value(self, depth: int) -> Json:
        kind = self._random.random()
        if depth == 0 or kind < 0.5:
            return self._scalar()
        if kind < 0.75:
            return [self._value(depth - 1) for _ in range(self._random.randint(0, 4))]
        return {name: self._value(depth - 1) for name in self._some(NAMES, 4)}

    def _part(self, depth: int, reached: bool) -> Json:
        """Return anything that may stand in a mapping; a mistake only where the oracle is sure to come by."""
        if reached and self._chance(0.004):
            return self._one(*MISTAKES)
        kind = self._random.random()
        if depth == 0 or kind < 0.15:
            return self._scalar()
        if kind < 0.8:
            return self._directive(depth, reached)
        if kind < 0.9:
            return [self._part(depth - 1, False) for _ in range(self._random.randint(0, 3))]
        return self._object(depth, reached)

    def _object(self, depth: int, reached: bool) -> Json:
        return {name: self._part(depth - 1, reached) for name in self._some((*NAMES, "_metadata"), 4)}

    def _directive(self, depth: int, reached: bool) -> Json:
        make = self._one(*self._directives) if depth > 0 else self._path
        directive = make(max(depth - 1, 0), reached)
        return {"_metadata": {"label": "x"}, **directive} if self._chance(0.05) else directive

    def _text(self, depth: int) -> Json:
        """Return what may stand for a text."""
        return self._one(*TEXTS) if depth == 0 or self._chance(0.25) else self._directive(depth, False)

    def _keys(self) -> list[str]:
        keys: list[str] = []
        value = self._item
        while self._chance(0.9) if not keys else self._chance(0.6):
            if isinstance(value, dict) and value and self._chance(0.9):
                keys.append(self._one(*value))
                value = value[keys[-1]]
            elif isinstance(value, list) and value and self._chance(0.9):
                place = self._random.randrange(len(value))
                keys.append(str(place))
                value = value[place]
            else:
                keys.append(self._one(*NAMES, "01", "-1", "1.0", "99"))
                value = None
        return keys

    def _written(self, keys: list[str]) -> str:
        path = self._one("$.", "$.", "$.", "", "$", ".")
        for number, key in enumerate(keys):
            form = self._random.randint(0, 7)
            brackets = {0: f"['{key}']", 1: f'["{key}"]', 2: f"[{key}]"}.get(form)
            path += brackets or (f".{key}" if number else key)
        return path + (self._one(".", "]", "[", "'", "[]", "..", "$.", " ") if self._chance(0.05) else "")

    def _path(self, depth: int, reached: bool) -> Json:
        if depth and self._chance(0.08):
            return {"@path": self._one(*TEXTS[1:6], self._directive(depth, False))}
        return {"@path": self._written(self._keys())}

    def _template_text(self) -> str:
        text = ""
        for _ in range(self._random.randint(0, 4)):
            path = self._written(self._keys()).removeprefix("$.")
            blank = self._one("", " ", "\t", "\xa0", "\x85")
            text += self._one("{{%s}}", "{{%s}}", "{{{%s}}}") % (blank + path + blank)
            text += self._one(" ", "-", "x") if "{{{" in text else self._one(*TEMPLATE_PARTS)
        return text

    def _template(self, depth: int, reached: bool) -> Json:
        if depth and self._chance(0.05):
            return {"@template": {"@if": {"exists": self._path(0, False), "then": self._template_text()}}}
        return {"@template": self._template_text()}

    def _literal(self, depth: int, reached: bool) -> Json:
        return {"@literal": self._one(self._scalar(), self._value(2), self._directive(depth, False))}

    def _if(self, depth: int, reached: bool) -> Json:
        options = {self._one("exists", "exists", "blank"): self._directive(depth, reached)}
        if self._chance(0.1):
            options = {"exists": self._one(None, "", 0, 1), "blank": self._one("x", 1, {"@path": "$.a"})}
        for name in self._some(("then", "else"), 2):
            options[name] = self._part(depth, False)
        return {"@if": options}

    def _case(self, depth: int, reached: bool) -> Json:
        return {"@case": {"operator": self._one("lower", "upper"), **self._maybe("value", self._text(depth))}}

    def _replace(self, depth: int, reached: bool) -> Json:
        options = {"pattern": self._one(*PATTERNS), "value": self._text(depth)}
        options |= self._maybe("replacement", self._one(*REPLACEMENTS))
        options |= self._maybe("global", self._one(True, False)) | self._maybe("ignorecase", self._one(True, False))
        if self._chance(0.4):
            options["pattern2"] = self._one(*PATTERNS, "", None, 5, {"@path": "$.a"})
            options |= self._maybe("replacement2", self._one(*REPLACEMENTS, None, 5))
        return {"@replace": options}

    def _array_path(self, depth: int, reached: bool) -> Json:
        outer = self._item
        keys = self._keys()
        root: Json = self._written(keys)
        for key in keys:
            self._item = _inner(self._item, key)
        if depth and self._chance(0.3):
            root = self._directive(depth, reached)
            self._item = self._value(1)
        if isinstance(self._item, list):
            self._item = self._one(*self._item) if self._item else None
        shape: list[Json] = [self._object(depth, False), self._object(depth, False), self._directive(depth, False)]
        shape += [self._scalar(), [self._path(0, False)]]
        made = {"@arrayPath": [root, self._one(*shape)] if self._chance(0.9) else [root]}
        self._item = outer
        return made

    def _merge(self, depth: int, reached: bool) -> Json:
        objects = [
            self._directive(depth, False) if self._chance(0.6) else self._object(max(depth, 1), False)
            for _ in range(self._random.randint(0, 3))
        ]
        return {"@merge": {"direction": self._one("left", "right", "LEFT"), "objects": objects}}

    def _flatten(self, depth: int, reached: bool) -> Json:
        options = {"separator": self._one(".", "_", "→", "."), "value": self._part(depth, reached)}
        return {"@flatten": options | self._maybe("omitArrays", self._one(True, False, 0, 1, "", {}))}

    def _json(self, depth: int, reached: bool) -> Json:
        value = self._one(self._directive(depth, reached), self._object(depth, reached) or 1, self._one(*TEXTS[1:]))
        if self._chance(0.2):
            value = {"@json": {"mode": "encode", "value": self._directive(depth, reached)}}
        return {"@json": {"mode": self._one("encode", "decode", "decode", "Encode"), "value": value}}

    def _transform(self, depth: int, reached: bool) -> Json:
        outer = self._item
        apply = self._object(depth, reached) if self._chance(0.7) else self._directive(depth, reached)
        self._item = apply
        mapping = self._object(max(depth, 1), False) if self._chance(0.7) else self._directive(depth, False)
        self._item = outer
        return {"@transform": {"apply": apply, "mapping": mapping}}

    def _exclude_when_null(self, depth: int, reached: bool) -> Json:
        return {"@excludeWhenNull": self._part(depth, False)}

    def _maybe(self, name: str, value: Json) -> dict[str, Json]:
        return {name: value} if self._chance(0.7) else {}


def _inner(value: Json, key: str) -> Json:
    if isinstance(value, dict):
        return value.get(key)
    return value[int(key)] if isinstance(value, list) and key.isdecimal() and int(key) < len(value) else None
