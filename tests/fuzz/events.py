"""JSON as callers write it: whole events, and events in which values, keys and the text itself have been changed."""

from __future__ import annotations

import json
from random import Random

from tests.fuzz.mutations import damaged, weighted

TYPES = ("identify", "track", "page", "screen", "group", "alias")
ODD_VALUES = (
    *(
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-0.0",
        "1.0",
        "1e400",
        "-1e-400",
        "9007199254740993",
        "18446744073709551616",
    ),
    *("1" * 5_000, "0." + "1" * 400, "NaN", "Infinity", "01", "+1", ".5", "1.", '""', '" "', '"\\u0000"', '"\\ud83d"'),
    *(
        '"\\ude00\\ud83d"',
        '"\\ud83d\\ude00"',
        '"\u202e\U0001f600"',
        '"\\r\\nX: y"',
        '"%s"' % ("x" * 600),
        "'a'",
        "[]",
        "{}",
    ),
    *(
        '[[[[{"a":[1]}]]]]',
        '{"":{"":{}}}',
        '{"__proto__":{"a":1}}',
        '{"a":1,"a":2}',
        "[" * 200 + "]" * 200,
        "[" * 70_000,
    ),
    *('{"a":' * 130 + "1" + "}" * 130, '"2026-11-20T07:00:00Z"', '"0000-00-00"', '"9999-12-31T23:59:60+99:99"', "1e20"),
    *(
        "-62135596800001",
        "253402300800000",
        '"\\u00e9' + "\\n" * 50 + '"',
        "[1,]",
        '{"a":1,}',
        "1 2",
        "/**/1",
        "\ufeff1",
    ),
)
KEYS = (
    *("type", "event", "userId", "anonymousId", "groupId", "previousId", "messageId", "timestamp", "originalTimestamp"),
    *("sentAt", "writeKey", "integrations", "context", "properties", "traits", "name", "category", "version", "batch"),
    *("USERID", "user\\u0049d", "__proto__", "", "1", "10", "\\ud800"),
)


def event(random: Random, type_: str | None = None) -> dict[str, object]:
    """A valid event."""
    kind = type_ or random.choice(TYPES)
    fields: dict[str, object] = {"type": kind, "userId": f"u{random.randrange(100)}", "previousId": "p"}
    fields |= {"event": "Order Completed", "groupId": "g", "messageId": f"m{random.getrandbits(64)}"}
    if random.random() < 0.5:
        fields["properties"] = {"total": 12.5, "10": 1, "2": [1e21, 5e-7], "text": "caf\u00e9 \U0001f600\u2028"}
    if random.random() < 0.3:
        fields |= {"timestamp": "2026-11-20T08:00:00+01:00", "sentAt": "2026-11-20T07:00:01Z"}
    if random.random() < 0.3:
        fields["context"] = {"ip": "203.0.113.7", "integrations": {"All": random.random() < 0.5}, "traits": {"a": 1}}
    if random.random() < 0.2:
        fields["integrations"] = {"All": False, "Mail": {"list": "x"}}
    return fields


def written(random: Random, value: object) -> bytes:
    """A value as JSON, one way or the other."""
    separators = random.choice(((",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")))
    return json.dumps(value, ensure_ascii=random.random() < 0.5, separators=separators).encode()


def odd_event(random: Random) -> bytes:
    """An event with fields of any type, missing, twice, or with text that is not quite JSON."""
    members = [(json.dumps(name), json.dumps(value)) for name, value in event(random).items()]
    for _ in range(random.choice((1, 1, 2, 4))):
        key, value = f'"{random.choice(KEYS)}"', random.choice(ODD_VALUES)
        at = random.randrange(len(members) + 1)
        match random.randrange(4):
            case 0:
                members.insert(at, (key, value))
            case 1:
                members[at:] = [(key, value), *members[at + 1 :]]
            case 2:
                members[at : at + 1] = [(name, value) for name, _ in members[at : at + 1]]
            case _:
                del members[at : at + 1]
    text = "{" + ",".join(f"{name}:{value}" for name, value in members) + "}"
    data = text.encode("utf-8", "surrogatepass")
    return weighted(random, data, (data.decode("utf-8", "replace").encode("utf-16"), b"\xef\xbb\xbf" + data), 0.03)


def batch(random: Random, items: list[bytes]) -> bytes:
    """A batch of items as they are, with or without an envelope."""
    members = [b'"batch":[' + b",".join(items) + b"]"]
    if random.random() < 0.3:
        members.insert(random.randrange(2), b'"context":{"app":{"name":"Shop"},"integrations":{"All":false}}')
    if random.random() < 0.3:
        members.append(b'"sentAt":"2026-11-20T07:00:01.5Z"')
    if random.random() < 0.1:
        odd = random.choice(ODD_VALUES).encode()
        members.insert(0, b'"%b":%b' % (random.choice(KEYS).encode(), odd))
    return b"{" + b",".join(members) + b"}"


def body(random: Random, single: bool) -> bytes:
    """The body of a request with anything from a valid event to damaged JSON in it."""
    if single:
        data = odd_event(random) if random.random() < 0.7 else written(random, event(random))
    else:
        count = random.choice((0, 1, 2, 3, 20))
        items = [odd_event(random) if random.random() < 0.3 else written(random, event(random)) for _ in range(count)]
        if random.random() < 0.1:
            items.append(random.choice(ODD_VALUES).encode())
        data = batch(random, items)
    return damaged(random, data) if random.random() < 0.3 else data
