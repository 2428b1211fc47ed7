"""What happens when documents or events are made to harm: it ends soon, in one of the two exceptions."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.kinds.mapping import MISSING, Mapping, MappingError, MappingFailed, compile_mapping
from hookline.kinds.mapping.bounds import CHARACTERS_MAX, DEPTH_MAX, VALUES_MAX
from hookline.kinds.mapping.directives import DIRECTIVES
from tests.unit.kinds.mapping.cases import CASES

SECONDS_MAX = 3.0
"""Far more than anything takes, and far less than what is not bounded."""
LONG = "x" * 10_000_000


def nested(levels: int, around: str, inside: Any) -> Any:
    """Put lists or directives around a value."""
    for _ in range(levels):
        inside = [inside] if around == "list" else {around: inside}
    return inside


def doubled(levels: int) -> Any:
    """Return a mapping whose result doubles with each level."""
    mapping: Any = {"@path": ""}
    for _ in range(levels):
        twice = {"l": {"@path": ""}, "r": {"@path": ""}}
        mapping = {"@transform": {"apply": twice, "mapping": mapping}}
    return mapping


def unseen(document: Any) -> Any:
    """Have something made of which nothing is in the result."""
    return {"@if": {"exists": document, "then": 1}}


def fails(mapping: Mapping, event: Any, words: str) -> None:
    """See the mapping fail for an event, in time, with these words."""
    begun = time.process_time()
    with pytest.raises(MappingFailed, match=words):
        mapping.resolve(event)
    assert time.process_time() - begun < SECONDS_MAX


@pytest.mark.parametrize("around", ["list", "a", "@literal", "@excludeWhenNull"])
def test_a_document_is_so_deep_and_no_deeper(around: str) -> None:
    """The last level that is allowed works, and the next one is refused."""
    assert compile_mapping(nested(DEPTH_MAX, around, 1)).resolve({}) is not MISSING
    with pytest.raises(MappingError, match="levels deep"):
        compile_mapping(nested(DEPTH_MAX + 1, around, 1))
    with pytest.raises(MappingError, match="levels deep"):
        compile_mapping(nested(20_000, around, 1))


def test_the_deepest_directives_resolve() -> None:
    """A document of directives within directives, as deep as may be, needs no more stack than there is."""
    document: Any = {"@path": "$.a"}
    for _ in range(DEPTH_MAX // 2 - 1):
        document = {"@if": {"exists": {"@path": "$.a"}, "then": document}}
    assert compile_mapping(document).resolve({"a": 1}) == 1


@pytest.mark.parametrize(
    "document",
    [
        {"@path": "$.a"},
        {"@template": "{{a}}"},
        {"@json": {"mode": "encode", "value": {"@path": "$.a"}}},
        {"@flatten": {"separator": ".", "value": {"@path": "$.a"}}},
        {"@transform": {"apply": {"a": {"@path": "$.a"}}, "mapping": {"@path": "$.a"}}},
    ],
)
def test_an_event_that_is_too_deep(document: Any) -> None:
    """No exception of the interpreter comes out."""
    fails(compile_mapping(document), {"a": nested(100_000, "list", 1)}, "levels deep")


def test_json_that_is_too_deep() -> None:
    """Neither for what the event has as text."""
    mapping = compile_mapping({"@json": {"mode": "decode", "value": {"@path": "$.a"}}})
    fails(mapping, {"a": "[" * 200_000 + "]" * 200_000}, "levels deep")
    fails(mapping, {"a": "\ud83d".join(['["', '",' + "[" * 500 + "]" * 501])}, "levels deep")


@pytest.mark.parametrize(
    "document",
    [
        {"@path": "$.long"},
        {"a": [{"@path": "$.long"}]},
        {"@template": "{{long}}"},
        {"@template": "{{list}}"},
        {"@template": {"@path": "$.long"}},
        {"@path": {"@path": "$.long"}},
        {"@case": {"operator": "upper", "value": {"@path": "$.long"}}},
        {"@replace": {"pattern": "x", "replacement": "y", "value": {"@path": "$.long"}}},
        {"@replace": {"pattern": "X", "ignorecase": True, "value": {"@path": "$.long"}}},
        unseen({"@replace": {"pattern": "x", "replacement": "$`$`$`$`$`", "value": {"@path": "$.short"}}}),
        unseen({"@replace": {"pattern": "x", "replacement": "$'", "ignorecase": True, "value": {"@path": "$.short"}}}),
        {"@replace": {"pattern": "x", "replacement": "1234567890", "value": {"@path": "$.half"}}},
        {"@json": {"mode": "encode", "value": {"@path": "$.long"}}},
        {"@json": {"mode": "decode", "value": {"@path": "$.long"}}},
        {"@merge": {"direction": "left", "objects": [{"@path": "$.long"}]}},
        {"@flatten": {"separator": "xxxxxxxxxx", "value": {"@path": "$.deep"}}},
        {"@if": {"blank": {"@path": "$.list"}, "then": 1}},
        {"@path": "$.wide.length"},
        [{"@path": "$.half"}] * 3,
        doubled(60),
        {"@arrayPath": ["$.many", {"a": {"@path": ""}, "b": 1}]},
        {"@arrayPath": ["$.many", {"a": [0] * 100}]},
        unseen({"@arrayPath": ["$.many", {"a": [{"@path": "b"}] * 1_000}]}),
    ],
)
def test_what_would_be_too_much(document: Any) -> None:
    """Nothing that a mapping makes of an event takes long or much."""
    event = {
        "long": LONG,
        "half": "x" * (CHARACTERS_MAX // 2),
        "short": "x" * 5_000,
        "wide": "é" * 10_000_000,
        "list": [LONG],
        "many": [0] * (VALUES_MAX // 2),
        "deep": nested(100, "a" * 200, {str(number): 1 for number in range(1_000)}),
    }
    fails(compile_mapping(document), event, "the mapping (makes|goes through) more than")


@pytest.mark.parametrize("template", ["{{{" * 40_000, "{{a" * 40_000, "{{a}" * 30_000, "}}" * 60_000, "[1" * 60_000])
def test_templates_and_paths_are_read_in_one_go(template: str) -> None:
    """Neither takes a time that grows with the square of its length."""
    begun = time.process_time()
    assert isinstance(compile_mapping({"@template": template}).resolve({}), str)
    compile_mapping({"@path": template}).resolve({})
    assert time.process_time() - begun < SECONDS_MAX


def test_names_of_javascript_are_names_as_any() -> None:
    """What every object of JavaScript has is there only where an event has it, and is sent as it is."""
    mapping = compile_mapping(
        {
            "own": {"@path": "$.own"},
            "__proto__": {"@path": "$.own.__proto__.x"},
            "constructor": {"@path": "$.constructor"},
            "text": {"@template": "{{own}}{{own.toString}}{{toString}}"},
            "merged": {"@merge": {"direction": "right", "objects": [{"@path": "$.own"}]}},
        }
    )
    own = {"__proto__": {"x": 1}, "toString": 2}
    assert mapping.resolve({"own": own}) == {"own": own, "__proto__": 1, "text": "[object Object]2", "merged": own}


@pytest.mark.parametrize("said", ["{{settings.key}}", "{{{settings.key}}}", "{", "$.settings.key"])
def test_what_an_event_says_is_never_a_template(said: str) -> None:
    """Whoever sends events cannot have a secret of the settings written into a request."""
    mapping = compile_mapping({"@template": "{{{a}}}{settings.key}} {{a}}{settings.key}}"})
    made = mapping.resolve({"a": said, "settings": {"key": "secret"}})
    assert made == f"{said}{{settings.key}}}} {said}{{settings.key}}}}"


def test_numbers_that_are_odd() -> None:
    """Infinite ones have no form in JSON, and those that are too long for a number become infinite."""
    mapping = compile_mapping({"n": {"@path": "$.n"}, "t": {"@template": "{{n}}"}})
    assert mapping.resolve({"n": float("inf")}) == {"n": None, "t": "Infinity"}
    assert mapping.resolve({"n": -(10**400)}) == {"n": -(10**400), "t": "-Infinity"}
    assert mapping.resolve({"n": float("nan")}) == {"n": None, "t": "NaN"}
    decode = compile_mapping({"@json": {"mode": "decode", "value": {"@path": "$.n"}}})
    assert decode.resolve({"n": "[" + "9" * 5_000 + "]"}) == [None]


NAMES = st.sampled_from(
    [
        *(*DIRECTIVES, "@liquid", "@no", "exists", "blank", "then", "else", "operator", "value", "pattern", "pattern2"),
        *(
            "replacement",
            "separator",
            "mode",
            "direction",
            "objects",
            "apply",
            "mapping",
            "a",
            "__proto__",
            "_metadata",
        ),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(
    ["$.a", "a.b[0]", "{{a}}", "{{{a.length}}}", "lower", "encode", "decode", "left", "right", "\ud83d", "[[", "{}"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=2), inner, max_size=4),
    max_leaves=20,
)
EVENTS = st.dictionaries(st.sampled_from(["a", "b", "__proto__", "constructor"]) | st.text(max_size=2), VALUES)


def changed(value: Any, place: int, other: Any) -> Any:
    """Return a copy of a document in which one value, counted through, is another."""
    document = {"": copy.deepcopy(value)}
    places: list[tuple[Any, Any]] = [(document, "")]
    for container, key in places:
        inner = container[key]
        if isinstance(inner, dict):
            places += [(inner, name) for name in inner]
        elif isinstance(inner, list):
            places += [(inner, number) for number in range(len(inner))]
    container, key = places[place % len(places)]
    container[key] = other
    return document[""]


@given(VALUES, EVENTS)
def test_no_document_raises_anything_else(document: Any, event: Any) -> None:
    """Any document is refused or resolved, or fails for the event."""
    try:
        compile_mapping(document).resolve(event)
    except (MappingError, MappingFailed):
        pass


@given(st.sampled_from(CASES), st.integers(0, 30), VALUES, EVENTS)
def test_no_change_of_a_good_document_raises_anything_else(case: Any, place: int, other: Any, event: Any) -> None:
    """Neither does a document that is nearly right."""
    document = changed(case.document, place, other)
    try:
        compile_mapping(document).resolve(event)
    except (MappingError, MappingFailed):
        pass
