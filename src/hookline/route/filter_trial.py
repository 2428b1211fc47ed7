"""Trying filters on events that are there already: how many they match, and what would be sent instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from hookline.connections.model import Destination
from hookline.events.body import render_plain
from hookline.journal.record import Record
from hookline.kinds.catalog import published_name
from hookline.route.decision import refusal
from hookline.route.filters import UNFILTERED_TYPE, Filters, rules_of

EVENTS_DEFAULT = 200
EVENTS_MAX = 1_000
SAMPLES_DEFAULT = 5
SAMPLES_MAX = 20


class FilterCount(msgspec.Struct, frozen=True, rename="camel"):
    """One filter and how many of the events that passed the earlier filters it matched."""

    rule: str
    matched: int


class TrialSample(msgspec.Struct, frozen=True, rename="camel"):
    """One event that a filter matched: the body before and after filters. ``after`` is null if it is not sent."""

    message_id: str
    source: str
    rules: tuple[str, ...]
    before: msgspec.Raw
    after: msgspec.Raw | None


class FilterTrial(msgspec.Struct, frozen=True, rename="camel"):
    """``matched`` of ``total`` events met a filter. ``filtered`` would not be sent; ``changed`` would be sent with
    changes."""

    total: int
    matched: int
    filtered: int
    changed: int
    filters: tuple[FilterCount, ...]
    samples: tuple[TrialSample, ...]


def events_for(destination: Destination, records: Iterable[Record]) -> Iterator[Record]:
    """Those of the records that the destination's filters would decide about."""
    name = published_name(destination.kind)
    for record in records:
        if record.rejection is not None or record.erased or record.type == UNFILTERED_TYPE:
            continue
        routed = record.source in destination.sources if record.to is None else destination.id in record.to
        if routed and refusal(record.selection, name) is None:
            yield record


def try_filters(
    destination: Destination,
    records: Iterable[Record],
    events_max: int = EVENTS_DEFAULT,
    samples_max: int = SAMPLES_DEFAULT,
) -> FilterTrial:
    """Run the destination's filters over the first ``events_max`` of the records that are for it."""
    filters = Filters(*rules_of(destination))
    counts = [0] * (len(destination.filters) + 1)  # with the one for what no request of a mapping takes
    total = matched = stopped = changed = 0
    samples: list[TrialSample] = []
    for record in events_for(destination, records):
        if total == events_max:
            break
        total += 1
        matching = filters.matching(record)
        if not matching:
            continue
        matched += 1
        for index in matching:
            counts[index] += 1
        sent = filters.passes(record)
        before = render_plain(record)
        after = filters.body(record, before, canonical=False) if sent else None
        stopped += not sent
        changed += sent and after != before
        if len(samples) < samples_max:
            rules = tuple(filters.rule(index) for index in matching)
            shown = None if after is None else msgspec.Raw(after)
            samples.append(TrialSample(record.message_id, record.source, rules, msgspec.Raw(before), shown))
    if not rules_of(destination)[1]:
        counts.pop()
    named = tuple(FilterCount(filters.rule(index), count) for index, count in enumerate(counts))
    return FilterTrial(total, matched, stopped, changed, named, tuple(samples))
