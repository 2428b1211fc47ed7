"""What documents give for an event, and which are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hookline.kinds.mapping import MappingError, MappingFailed, compile_mapping
from hookline.kinds.mapping.bounds import DOCUMENT_CHARACTERS_MAX, DOCUMENT_VALUES_MAX
from tests.unit.kinds.mapping.cases import CASES, EVENT, FAILURES, Case, p

SHAPED = {"@arrayPath": ["$.properties.products", {"id": {"@path": "$.sku"}, "t": {"@template": "{{ name }}"}}]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.situation)
def test_what_a_document_gives(case: Case) -> None:
    """Each situation comes out as the table says, and the event stays as it was."""
    event = copy.deepcopy(EVENT)
    assert compile_mapping(case.document).resolve(event) == case.gives
    assert event == EVENT


@pytest.mark.parametrize(("document", "path"), FAILURES)
def test_what_an_event_does_not_allow(document: Any, path: str) -> None:
    """The failure names the directive within the document."""
    mapping = compile_mapping(document)
    with pytest.raises(MappingFailed) as raised:
        mapping.resolve(EVENT)
    assert raised.value.path == path
    assert str(raised.value).startswith(path)


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        ({"a": {"@pth": "$.x"}}, "/a/@pth", "no directive @pth; did you mean @path?"),
        ({"a": {"@Template": "x"}}, "/a/@Template", "did you mean @template?"),
        ([{"@arraypath": []}], "/0/@arraypath", "did you mean @arrayPath?"),
        ({"@": 1}, "/@", "no directive @;"),
        ({"a": {"@liquid": "{{ x }}"}}, "/a/@liquid", "@liquid is not supported"),
        ({"__segment_internal_directive": {}}, "/__segment_internal_directive", "write @transform"),
        (
            {"@transform": {"apply": {"__segment_internal_directive": {}}, "mapping": {}}},
            "/@transform/apply/__segment_internal_directive",
            "write @transform",
        ),
        ({"a/b": {"~": {"@path": 5}}}, "/a~1b/~0/@path", "a text or a directive"),
        ({"@path": {"a": "b"}}, "/@path", "a text or a directive"),
        ({"@path": {"@literal": 5}}, "/@path", "@path needs a text, and what stands here is a number"),
        ({"@path": "$.a", "default": 1}, "/default", "beside @path stands no other field"),
        ({"a": {"@path": "$.a", "@template": ""}}, "/a", "one directive, and this one has @path and @template"),
        ({"@template": "{{ {{{a}}} }}"}, "/@template", "within another one"),
        ({"@if": "x"}, "/@if", "an object with"),
        ({"@if": {"then": 1}}, "/@if", '"exists" or "blank"'),
        ({"@if": {"exists": "", "then": 1}}, "/@if/exists", '"exists" or "blank"'),
        ({"@if": {"exists": p("a"), "else": [{"@if": {}}]}}, "/@if/else/0/@if", '"exists" or "blank"'),
        ({"@if": {"exists": p("a"), "other": {"@no": 1}}}, "/@if/other/@no", "no directive @no"),
        ({"@case": {"value": "a"}}, "/@case", 'needs "operator"'),
        ({"@case": {"operator": "title", "value": "a"}}, "/@case/operator", '"lower" or "upper"'),
        ({"@case": {"operator": "lower", "value": 5}}, "/@case/value", "a text or a directive"),
        ({"@replace": {"value": "a"}}, "/@replace", 'needs "pattern"'),
        ({"@replace": {"pattern": "a"}}, "/@replace", 'needs "value"'),
        ({"@replace": {"pattern": "a" * 11, "value": "a"}}, "/@replace/pattern", "at most 10 characters"),
        ({"@replace": {"pattern": "😀" * 6, "value": "a"}}, "/@replace/pattern", "at most 10 characters"),
        ({"@replace": {"pattern": "a", "value": "a", "replacement": None}}, "/@replace/replacement", "a text"),
        ({"@replace": {"pattern": "a", "value": "a", "global": "no"}}, "/@replace/global", "true or false"),
        ({"@replace": {"pattern": "a", "value": "a", "pattern2": "b" * 11}}, "/@replace/pattern2", "at most 10"),
        ({"@arrayPath": "$.a"}, "/@arrayPath", "takes a list"),
        ({"@arrayPath": []}, "/@arrayPath", "takes a list"),
        ({"@arrayPath": [5]}, "/@arrayPath/0", "a text or a directive"),
        ({"@flatten": {"value": {}}}, "/@flatten", 'needs "separator"'),
        ({"@flatten": {"separator": "."}}, "/@flatten", 'needs "value"'),
        ({"@json": {"mode": "both", "value": "a"}}, "/@json/mode", '"encode" or "decode"'),
        ({"@json": {"mode": "encode", "value": 0}}, "/@json/value", 'needs a "value"'),
        ({"@merge": {"objects": []}}, "/@merge", 'needs "direction"'),
        ({"@merge": {"direction": "up", "objects": []}}, "/@merge/direction", '"left"'),
        ({"@merge": {"direction": "left", "objects": {}}}, "/@merge/objects", "a list"),
        ({"@merge": {"direction": "left", "objects": [{}, "a"]}}, "/@merge/objects/1", "an object or a directive"),
        ({"@transform": {"apply": {}}}, "/@transform", 'needs "mapping"'),
        ({"@transform": {"apply": [], "mapping": {}}}, "/@transform/apply", "an object or a directive"),
        ({"a": float("nan")}, "/a", "no form in JSON"),
        ({"a": {5: 1}}, "/a", "write it in quotes"),
        ({"@if": {5: 1}}, "/@if", "write it in quotes"),
        ({"a": b"x"}, "/a", "no JSON value but a bytes"),
        ([0] * DOCUMENT_VALUES_MAX, f"/{DOCUMENT_VALUES_MAX - 1}", "at most 10,000 values"),
        ({"a": "x" * DOCUMENT_CHARACTERS_MAX}, "/a", "at most 262,144 characters"),
    ],
)
def test_what_is_refused(document: Any, path: str, words: str) -> None:
    """A mistake is found before an event comes, at its place, with a sentence that says what to write."""
    with pytest.raises(MappingError) as raised:
        compile_mapping(document)
    assert raised.value.path == path
    assert words in raised.value.sentence


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"a": p("['order id']"), "b": [{"@template": "{{userId}} {{{ traits.email }}}"}]},
         {"properties.order id", "userId", "traits.email"}),
        (SHAPED, {"properties.products", "properties.products.sku", "properties.products.name"}),
        ({"@transform": {"apply": {"x": p("count")}, "mapping": {"@path": "$.x"}}}, {"properties.count"}),
        ({"@arrayPath": [{"@path": "$.list"}, {"a": {"@path": "$.b"}}]}, {"list"}),
        ({"@if": {"blank": p("a"), "then": p("b"), "else": {"@case": {"operator": "lower", "value": p("c")}}}},
         {"properties.a", "properties.b", "properties.c"}),
        ({"@path": ""}, {""}),
        ({"a": 1}, set()),
    ],
)  # fmt: skip
def test_the_paths_of_a_document(document: Any, paths: set[str]) -> None:
    """What a mapping reads of an event is known, items of lists included; what reads made-up objects is not."""
    assert compile_mapping(document).paths == paths


def test_a_result_belongs_to_the_caller() -> None:
    """Changing what an event was made into changes neither the event nor what the next one is made into."""
    mapping = compile_mapping({"all": {"@path": "$.properties"}, "own": {"list": [1]}})
    event = {"properties": {"a": [1]}}
    made = mapping.resolve(event)
    made["all"]["a"].append(2)
    made["own"]["list"].append(2)
    assert mapping.resolve(event) == {"all": {"a": [1]}, "own": {"list": [1]}}
