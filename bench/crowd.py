"""Realistic people for measurements: a few are busy and most are not, they come anonymous and are identified later.

One event in five is an identify with traits, one in a hundred a group call, the rest are ten kinds of tracked events
with properties; all follow from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from hookline.events.timestamps import iso
from hookline.journal.record import Record, fingerprints
from hookline.people.definitions.feature import Feature

EVENTS_PER_USER = 10
SPAN_MS = 30 * 86_400_000
NAMES = (
    "Product Viewed",
    "Product Added",
    "Cart Viewed",
    "Checkout Started",
    "Order Completed",
    "Search Performed",
    "Email Opened",
    "Article Read",
    "Video Played",
    "Session Started",
)
WEIGHTS = (30, 12, 8, 5, 3, 10, 8, 10, 6, 8)
SOURCE = "website"
RECORDS_PER_GROUP = 500
ACTIVITY = 1.1
"""The exponent of the distribution of activity: a tenth of the users make about half of the events."""

FEATURES: dict[Feature, int | None] = {
    **{Feature("track", name, "", ""): 30 * 86_400_000 for name in NAMES},
    **{Feature("track", name, "properties.total >= 100", ""): 90 * 86_400_000 for name in NAMES},
    **{Feature("track", name, "", "properties.total"): None for name in NAMES},
}
"""Thirty: each name for counting, with a condition, and with a value."""


def records(events: int, users: int, end_ms: int, seed: int = 1) -> Iterator[list[Record]]:
    """So many events of so many users over thirty days, in groups."""
    chance = random.Random(seed)
    begin_ms = end_ms - SPAN_MS
    identified = bytearray(users)
    for first in range(0, events, RECORDS_PER_GROUP):
        count = min(RECORDS_PER_GROUP, events - first)
        ids = [f"m-{number:010}" for number in range(first, first + count)]
        received_at = begin_ms + SPAN_MS * first // events
        yield [
            _record(chance, message_id, mark, received_at, users, identified)
            for message_id, mark in zip(ids, fingerprints(SOURCE, ids), strict=True)
        ]


def _record(
    chance: random.Random, message_id: str, mark: bytes, received_at: int, users: int, identified: bytearray
) -> Record:
    user = min(users, int(chance.paretovariate(ACTIVITY) * users / 100)) if chance.random() < 0.5 else 0
    user = (user or chance.randrange(users)) % users
    timestamp = iso(received_at - int(chance.expovariate(1 / 2_000)))
    ids = f'"anonymousId":"a-{user:08}"'
    draw = chance.random()
    if draw < 0.2 or identified[user]:
        ids += f',"userId":"user-{user:08}"'
    if draw < 0.2:
        identified[user] = 1
        type = "identify"
        plan = "pro" if user % 7 == 0 else "free"
        rest = f'"traits":{{"plan":"{plan}","email":"user-{user}@example.com","age":{18 + user % 60},"city":"Lisbon"}}'
    elif draw < 0.21 and identified[user]:
        type = "group"
        rest = f'"groupId":"company-{user % 1000}","traits":{{"plan":"team","seats":{user % 50}}}'
    else:
        type = "track"
        name = chance.choices(NAMES, WEIGHTS)[0]
        total = chance.randrange(1, 30_000) / 100
        rest = f'"event":"{name}","properties":{{"total":{total},"currency":"EUR","sku":"sku-{chance.randrange(500)}"}}'
    body = (
        f'{{"type":"{type}","messageId":"{message_id}",{ids},{rest},"timestamp":"{timestamp}",'
        '"context":{"ip":"203.0.113.7","locale":"en-GB","userAgent":"Mozilla/5.0 (X11; Linux x86_64) Firefox/140",'
        '"library":{"name":"analytics.js","version":"5.2.0"},"page":{"path":"/","url":"https://example.com/"}}}'
    )
    key = f"user-{user:08}" if '"userId"' in ids else f"a-{user:08}"
    return Record(1, False, received_at, SOURCE, type, message_id, mark, key, timestamp, "sdk", body.encode())
