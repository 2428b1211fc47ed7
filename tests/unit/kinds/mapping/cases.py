"""What each directive means: situations with what comes of them, which hold for the oracle too."""

from __future__ import annotations

from typing import Any, NamedTuple

from hookline.kinds.mapping import MISSING

Json = Any

EVENT: dict[str, Json] = {
    "type": "track",
    "event": "Order Completed",
    "userId": "u-1",
    "properties": {
        "total": 99.5,
        "count": 3,
        "round": 5.0,
        "zero": 0,
        "huge": 1e21,
        "long": 12345678901234567890,
        "vip": True,
        "lapsed": False,
        "none": None,
        "empty": "",
        "padded": "  ",
        "emoji": "a😀b",
        "half": "\ud83d",
        "json": '{"a": [1, {"b": null}]}',
        "tags": ["new", 7, True, None, [1, 2]],
        "no-tags": [],
        "one": {"sku": "A", "price": 1},
        "products": [{"sku": "A", "price": 19.99, "colors": ["red"]}, {"sku": "B"}],
        "order id": "o-1",
        "a.b": 1,
        "10": "ten",
    },
    "traits": {"email": "Ada@Example.com", "address": {"city": "Köln", "zip": None, "geo": {"lat": None, "lon": 7}}},
}


class Case(NamedTuple):
    """A document, what it gives for the event, and the situation in words."""

    situation: str
    document: Json
    gives: Json


def p(path: str) -> Json:
    """Return the directive that reads a property."""
    return {"@path": f"$.properties.{path}"}


def conditional(**options: Json) -> Json:
    """Return an @if that says yes or no."""
    return {"@if": {"then": "yes", "else": "no"} | options}


PLAIN = (
    Case("values without directives stay", {"a": [1, "x", None, {"b": True}]}, {"a": [1, "x", None, {"b": True}]}),
    Case("undefined fields go", {"a": p("nowhere"), "b": {"c": p("nowhere")}}, {"b": {}}),
    Case("undefined items become null", {"a": [p("nowhere"), 1]}, {"a": [None, 1]}),
    Case("null stays", {"a": p("none")}, {"a": None}),
    Case("a directive may be the whole", {"@path": "$.traits.address.city"}, "Köln"),
    Case("the whole may be undefined", {"@path": "$.nowhere"}, MISSING),
    Case("directives within lists", {"a": [[{"b": p("count")}]]}, {"a": [[{"b": 3}]]}),
    Case(
        "_metadata beside a directive is not read", {"a": {"@path": "$.type", "_metadata": {"@x": 1}}}, {"a": "track"}
    ),
    Case("_metadata elsewhere is a field", {"_metadata": {"a": 1}, "b": 2}, {"_metadata": {"a": 1}, "b": 2}),
)

PATHS = (
    Case("without $.", {"@path": "userId"}, "u-1"),
    Case("brackets with a number", {"@path": "$.properties.products[1].sku"}, "B"),
    Case("brackets with quotes", {"@path": """$.properties['order id']"""}, "o-1"),
    Case("quotes around the first name", {"@path": """["properties"]["count"]"""}, 3),
    Case("quotes do not keep a dot together", {"@path": """$.properties['a.b']"""}, MISSING),
    Case("brackets around a bare name belong to it", {"@path": "$.properties[count]"}, MISSING),
    Case("a number between dots", {"@path": "$.properties.products.0.sku"}, "A"),
    Case("a number is no other form of itself", {"@path": "$.properties.products.00.sku"}, MISSING),
    Case("beyond a list", {"@path": "$.properties.products[9].sku"}, MISSING),
    Case("a name that is a number", p("10"), "ten"),
    Case("the first $. vanishes wherever it stands", {"@path": "proper$.ties.count"}, 3),
    Case("a $ alone is a name", {"@path": "$"}, MISSING),
    Case("through null comes null", p("none.deeper"), None),
    Case("through an empty text comes that", p("empty.deeper.still"), ""),
    Case("through 0 comes 0", p("zero.deeper"), 0),
    Case("through false comes false", p("lapsed.deeper"), False),
    Case("through a number comes nothing", p("count.deeper"), MISSING),
    Case("the length of a list", p("tags.length"), 5),
    Case("the length of a text is in UTF-16", p("emoji.length"), 4),
    Case("a place in a text is in UTF-16", p("emoji[1]"), "\ud83d"),
    Case(
        "the whole event", {"@merge": {"direction": "right", "objects": [{"@path": "$."}, {"x": 1}]}}, EVENT | {"x": 1}
    ),
    Case("a path that is made up", {"@path": {"@template": "properties.{{properties.none}}count"}}, 3),
)

TEMPLATES = (
    Case("texts and values", {"@template": "Hi {{traits.email}}, {{ properties.count }}!"}, "Hi Ada@Example.com, 3!"),
    Case("three braces give the same", {"@template": "{{{traits.email}}} {{userId}}"}, "Ada@Example.com u-1"),
    Case("what is missing or null is empty", {"@template": "[{{properties.none}}{{properties.nowhere}}]"}, "[]"),
    Case("numbers as JavaScript writes them", {"@template": "{{properties.round}} {{properties.huge}}"}, "5 1e+21"),
    Case("large integers lose digits", {"@template": "{{properties.long}}"}, "12345678901234567000"),
    Case("true and false", {"@template": "{{properties.vip}}/{{properties.lapsed}}"}, "true/false"),
    Case("lists are joined", {"@template": "{{properties.tags}}"}, "new,7,true,,1,2"),
    Case("objects are not written", {"@template": "{{traits}}"}, "[object Object]"),
    Case("$. is no part of a placeholder's path", {"@template": "[{{$.userId}}]"}, "[]"),
    Case(
        "a brace too few stays", {"@template": "{userId} {{userId} {{}} {{ userId"}, "{userId} {{userId} {{}} {{ userId"
    ),
    Case("a brace too many stays", {"@template": "{{userId}}} {{{{userId}}}}"}, "u-1} }"),
    Case("a template that is made up", {"@template": {"@if": {"exists": p("vip"), "then": "{{userId}}"}}}, "u-1"),
    Case("halves of a pair meet", {"@template": "{{properties.half}}{{properties.emoji[2]}}"}, "😀"),
)

CONDITIONS = (
    Case("exists: a value", conditional(exists=p("count")), "yes"),
    Case("exists: an empty text", conditional(exists=p("empty")), "yes"),
    Case("exists: false", conditional(exists=p("lapsed")), "yes"),
    Case("exists: null", conditional(exists=p("none")), "no"),
    Case("exists: nothing", conditional(exists=p("nowhere")), "no"),
    Case("blank is the opposite of what its name says", conditional(blank=p("count")), "yes"),
    Case("blank: an empty text", conditional(blank=p("empty")), "no"),
    Case("blank: blanks are text", conditional(blank=p("padded")), "yes"),
    Case("blank: 0 equals an empty text", conditional(blank=p("zero")), "no"),
    Case("blank: so does false", conditional(blank=p("lapsed")), "no"),
    Case("blank: so does an empty list", conditional(blank=p("no-tags")), "no"),
    Case("blank: an object does not", conditional(blank=p("one")), "yes"),
    Case("exists counts before blank", conditional(exists=p("empty"), blank=p("empty")), "yes"),
    Case("exists that is null counts too", conditional(exists=None, blank=p("count")), "no"),
    Case("no then", {"@if": {"exists": p("count"), "else": "no"}}, MISSING),
    Case("no else", {"@if": {"exists": p("none"), "then": "yes"}}, MISSING),
    Case("then may be null", {"@if": {"exists": p("count"), "then": None}}, None),
    Case("else may not be 0", {"@if": {"exists": p("none"), "else": 0}}, MISSING),
    Case("branches are mappings", {"@if": {"exists": p("one"), "then": {"a": p("one.sku")}}}, {"a": "A"}),
)

TEXTS = (
    Case("lower", {"@case": {"operator": "lower", "value": {"@path": "$.traits.email"}}}, "ada@example.com"),
    Case("upper makes more of one", {"@case": {"operator": "upper", "value": "straße"}}, "STRASSE"),
    Case("a sigma at the end", {"@case": {"operator": "lower", "value": "ΟΔΟΣ"}}, "οδος"),
    Case("what is no text stays", {"@case": {"operator": "upper", "value": p("tags")}}, EVENT["properties"]["tags"]),
    Case("an empty text is nothing", {"@case": {"operator": "upper", "value": ""}}, MISSING),
    Case("one that is found is a text", {"@case": {"operator": "upper", "value": p("empty")}}, ""),
    Case("no value", {"@case": {"operator": "upper"}}, MISSING),
    Case("replace everywhere", {"@replace": {"pattern": "-", "value": "a-b-c", "replacement": "+"}}, "a+b+c"),
    Case("remove", {"@replace": {"pattern": "-", "value": "a-b-c"}}, "abc"),
    Case("once", {"@replace": {"pattern": "-", "value": "a-b-c", "replacement": "+", "global": False}}, "a+b-c"),
    Case("a pattern is a text", {"@replace": {"pattern": "(.*)+$", "value": "x(.*)+$y", "replacement": "-"}}, "x-y"),
    Case("with case", {"@replace": {"pattern": "A", "value": "aAa"}}, "aa"),
    Case("without", {"@replace": {"pattern": "A", "value": "aAa", "ignorecase": True}}, ""),
    Case("a long s is no s", {"@replace": {"pattern": "s", "value": "sSſ", "ignorecase": True}}, "ſ"),
    Case("µ is a Greek letter", {"@replace": {"pattern": "Μ", "value": "µμ", "ignorecase": True}}, ""),
    Case(
        "twice, one after the other",
        {"@replace": {"pattern": "a", "value": "abc", "replacement": "b", "pattern2": "b", "replacement2": "x"}},
        "xxc",
    ),
    Case("$& is what was found", {"@replace": {"pattern": "b", "value": "abc", "replacement": "[$&]$$"}}, "a[b]$c"),
    Case("$` and $' are around it", {"@replace": {"pattern": "b", "value": "abc", "replacement": "$'-$`"}}, "ac-ac"),
    Case("$1 means nothing", {"@replace": {"pattern": "b", "value": "abc", "replacement": "$1"}}, "a$1c"),
    Case("half of a pair", {"@replace": {"pattern": "\ud83d", "value": p("emoji")}}, "a\ude00b"),
    Case("numbers become text", {"@replace": {"pattern": ".", "value": p("total"), "replacement": ","}}, "99,5"),
    Case("true too", {"@replace": {"pattern": "t", "value": p("vip")}}, "rue"),
    Case("anything else is empty", {"@replace": {"pattern": "t", "value": p("tags")}}, ""),
    Case("nothing too", {"@replace": {"pattern": "t", "value": p("nowhere")}}, ""),
    Case("an empty text as it is written is nothing", {"@replace": {"pattern": "t", "value": ""}}, MISSING),
)

LISTS = (
    Case(
        "each item",
        {"@arrayPath": ["$.properties.products", {"id": {"@path": "$.sku"}, "p": {"@path": "$.price"}}]},
        [
            {"id": "A", "p": 19.99},
            {"id": "B"},
        ],
    ),
    Case("the list alone", {"@arrayPath": ["$.properties.no-tags"]}, []),
    Case("an object is a list of one", {"@arrayPath": ["$.properties.one", {"id": {"@path": "$.sku"}}]}, [{"id": "A"}]),
    Case("a scalar stays", {"@arrayPath": ["$.properties.count", {"id": {"@path": "$.sku"}}]}, 3),
    Case("nothing stays nothing", {"@arrayPath": ["$.properties.nowhere", {"id": 1}]}, MISSING),
    Case("an empty object is no shape", {"@arrayPath": ["$.properties.no-tags", {}]}, []),
    Case("a list is no shape", {"@arrayPath": ["$.properties.one", [1]]}, {"sku": "A", "price": 1}),
    Case("a directive for each", {"@arrayPath": ["$.properties.products", {"@path": "$.sku"}]}, ["A", "B"]),
    Case(
        "scalars have no fields",
        {"@arrayPath": ["$.properties.tags", {"a": {"@path": "$.b"}}]},
        [{}, {}, {}, {"a": None}, {}],
    ),
    Case("the item itself", {"@arrayPath": ["$.properties.products[0].colors", {"@path": ""}]}, ["red"]),
    Case(
        "lists within lists",
        {"@arrayPath": ["$.properties.products", {"c": {"@arrayPath": ["$.colors"]}}]},
        [
            {"c": ["red"]},
            {},
        ],
    ),
    Case(
        "a directive that gives the list",
        {"@arrayPath": [{"@literal": [1, {"a": 2}]}, {"x": {"@path": "a"}}]},
        [{}, {"x": 2}],
    ),
)

OBJECTS = (
    Case("literal", {"@literal": {"a": [1, None]}}, {"a": [1, None]}),
    Case("a literal's directives count", {"@literal": {"@path": "$.userId"}}, "u-1"),
    Case(
        "right: later ones win",
        {"@merge": {"direction": "right", "objects": [{"a": 1, "b": 1}, {"a": 2}]}},
        {"a": 2, "b": 1},
    ),
    Case(
        "left: earlier ones win",
        {"@merge": {"direction": "left", "objects": [{"a": 1, "b": 1}, {"a": 2}]}},
        {"a": 1, "b": 1},
    ),
    Case("undefined wins too", {"@merge": {"direction": "right", "objects": [{"a": 1}, {"a": p("nowhere")}]}}, {}),
    Case("null and scalars add nothing", {"@merge": {"direction": "right", "objects": [p("none"), p("count")]}}, {}),
    Case(
        "a text adds its units",
        {"@merge": {"direction": "right", "objects": [p("emoji")]}},
        {"0": "a", "1": "\ud83d", "2": "\ude00", "3": "b"},
    ),
    Case(
        "flatten",
        {"@flatten": {"separator": "_", "value": {"@path": "$.traits"}}},
        {
            "email": "Ada@Example.com",
            "address_city": "Köln",
            "address_zip": None,
            "address_geo_lat": None,
            "address_geo_lon": 7,
        },
    ),
    Case(
        "flatten lists",
        {"@flatten": {"separator": ".", "value": {"t": p("tags")}}},
        {"t.0": "new", "t.1": 7, "t.2": True, "t.3": None, "t.4.0": 1, "t.4.1": 2},
    ),
    Case("or not", {"@flatten": {"separator": ".", "value": {"t": p("no-tags")}, "omitArrays": True}}, {"t": []}),
    Case("what is empty vanishes", {"@flatten": {"separator": ".", "value": {"t": p("no-tags"), "u": {}}}}, {}),
    Case("a scalar has no name", {"@flatten": {"separator": ".", "value": p("count")}}, {"": 3}),
    Case(
        "transform",
        {"@transform": {"apply": {"x": p("count")}, "mapping": {"y": {"@path": "$.x"}, "z": p("count")}}},
        {"y": 3},
    ),
    Case(
        "what is applied has no undefined fields",
        {
            "@transform": {
                "apply": {"x": p("nowhere")},
                "mapping": {"@merge": {"direction": "right", "objects": [{"x": 1}, {"@path": ""}]}},
            }
        },
        {"x": 1},
    ),
    Case(
        "nothing is transformed as an empty object",
        {"@arrayPath": [{"@literal": [p("nowhere")]}, {"@transform": {"apply": {"a": 1}, "mapping": {"@path": "a"}}}]},
        [1],
    ),
    Case("transform a directive", {"@transform": {"apply": p("one"), "mapping": {"@path": "$.sku"}}}, "A"),
    Case("exclude null", {"@excludeWhenNull": p("none")}, MISSING),
    Case(
        "exclude null in objects",
        {"@excludeWhenNull": {"@path": "$.traits.address"}},
        {"city": "Köln", "geo": {"lon": 7}},
    ),
    Case("not in lists", {"@excludeWhenNull": p("tags")}, ["new", 7, True, None, [1, 2]]),
)

JSON = (
    Case("encode", {"@json": {"mode": "encode", "value": p("products")}},
         '[{"sku":"A","price":19.99,"colors":["red"]},{"sku":"B"}]'),
    Case("numbers as in JavaScript", {"@json": {"mode": "encode", "value": [p("round"), p("huge"), p("long")]}},
         "[5,1e+21,12345678901234567000]"),
    Case("integers come first", {"@json": {"mode": "encode", "value": {"b": 1, "10": 1, "9": 1, "01": 1}}},
         '{"9":1,"10":1,"b":1,"01":1}'),
    Case("undefined", {"@json": {"mode": "encode", "value": {"a": p("nowhere"), "b": [p("nowhere")]}}}, '{"b":[null]}'),
    Case("nothing to encode", {"@json": {"mode": "encode", "value": p("nowhere")}}, MISSING),
    Case("texts", {"@json": {"mode": "encode", "value": "\"\\/\n\x01\x7fé😀\u2028\ud83d"}},
         '"\\"\\\\/\\n\\u0001\x7fé😀\u2028\\ud83d"'),
    Case("decode", {"@json": {"mode": "decode", "value": p("json")}}, {"a": [1, {"b": None}]}),
    Case("what is no JSON stays", {"@json": {"mode": "decode", "value": "NaN"}}, "NaN"),
    Case("what is no text stays", {"@json": {"mode": "decode", "value": p("one")}}, {"sku": "A", "price": 1}),
    Case("infinity has no form", {"a": {"@json": {"mode": "decode", "value": "[1e400, -1e400]"}}}, {"a": [None, None]}),
    Case("a mode in capitals", {"@json": {"mode": "Encode", "value": p("one")}}, MISSING),
    Case("halves of a pair meet", {"@json": {"mode": "decode", "value": '"\ud83d\\ude00"'}}, "😀"),
)  # fmt: skip

CASES = (*PLAIN, *PATHS, *TEMPLATES, *CONDITIONS, *TEXTS, *LISTS, *OBJECTS, *JSON)

FAILURES: tuple[tuple[Json, str], ...] = (
    ({"a": {"@path": p("count")}}, "/a/@path"),
    ({"a": [{"@path": p("nowhere")}]}, "/a/0/@path"),
    ({"@template": p("none")}, "/@template"),
    ({"@json": {"mode": "Encode", "value": {"@template": p("none")}}}, "/@json/value/@template"),
    (
        {"@arrayPath": ["$.properties.tags", {"@transform": {"apply": {"a": 1}, "mapping": {}}}]},
        "/@arrayPath/1/@transform",
    ),
)
"""Documents that cannot be resolved for the event, with the place that says so."""
