"""What makes configured objects right or wrong, beyond their shape: used by the file and the API alike.

Owns the problems' codes and the rules between objects (unique keys, existing sources). URLs, headers and secrets are
judged by their own modules; what a change may do to stored objects is the store's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from hookline.connections.definitions.check import (
    Surroundings,
    definition_problems,
    kind_of,
    name_problems,
    problems_together,
    trait_names,
)
from hookline.connections.definitions.model import Audience, ComputedTrait, Definition
from hookline.connections.history import WORDS, Kind
from hookline.connections.kinds import kind_problems
from hookline.connections.model import Destination, Filter, Source, WebhookSettings
from hookline.connections.notifications import Notification, notification_problems, reference_problems
from hookline.connections.receiver_url import parse_receiver_url
from hookline.connections.secrets import check_secret, check_standard_secret, is_reference
from hookline.events.view import EVENT_FIELDS, EVENT_OBJECTS
from hookline.expressions.lexer import ExpressionError
from hookline.expressions.parse import parse
from hookline.expressions.tree import parse_path
from hookline.journal.record import SYNC_SOURCE
from hookline.kinds.headers import STANDARD_WEBHOOKS, check_static_headers

PLAN_LEVEL = "business"
SOURCES_MAX = 10_000
DESTINATIONS_MAX = 20_000
AUDIENCES_MAX = 1_000
COMPUTED_TRAITS_MAX = 1_000
NOTIFICATIONS_MAX = 200
"""Each is held against every open notice, every few seconds."""

COUNTS_MAX: dict[Kind, int] = {
    "source": SOURCES_MAX,
    "destination": DESTINATIONS_MAX,
    "audience": AUDIENCES_MAX,
    "computedTrait": COMPUTED_TRAITS_MAX,
    "notification": NOTIFICATIONS_MAX,
}

ProblemCode = Literal[
    "file_unreadable",
    "invalid_yaml",
    "extra_document",
    "duplicate_key",
    "unknown_key",
    "invalid_value",
    "duplicate_id",
    "duplicate_write_key",
    "unknown_source",
    "unknown_kind",
    "source_in_use",
    "invalid_url",
    "invalid_headers",
    "invalid_secret",
    "invalid_certificate",
    "invalid_filter",
    "invalid_settings",
    "invalid_mapping",
    "invalid_definition",
    "duplicate_trait",
    "unknown_destination",
    "unknown_definition",
    "audience_cycle",
    "destination_in_use",
    "definition_in_use",
    "plan_level",
    "nothing_to_keep",
    "rotated_out",
    "made_elsewhere",
    "not_found",
    "not_enabled",
    "draining",
    "changed_meanwhile",
    "reference_needs_owner",
    "too_many",
    "more_problems",
]
PROBLEM_CODES: tuple[ProblemCode, ...] = get_args(ProblemCode)


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something wrong in a configuration: where (``destinations[0].settings.webhooks[1].url``, and in a file the
    line, from 1) and a sentence that says what to do. ``count`` is more than 1 for the problems that are not listed."""

    code: ProblemCode
    path: str
    message: str
    line: int | None = None
    count: int = 1

    def __str__(self) -> str:
        place = [f"line {self.line}" if self.line else "", self.path]
        return ": ".join([", ".join(filter(None, place)), self.message]).removeprefix(": ")


def check_all(
    sources: Iterable[tuple[str, Source]],
    destinations: Iterable[tuple[str, Destination]],
    plan_level: str = PLAN_LEVEL,
    audiences: Sequence[tuple[str, Audience]] = (),
    computed_traits: Sequence[tuple[str, ComputedTrait]] = (),
    notifications: Sequence[tuple[str, Notification]] = (),
) -> list[Problem]:
    """Return the problems of a whole configuration; each object comes with its path."""
    problems: list[Problem] = []
    known: dict[str, Source] = {}
    write_keys: dict[str, str] = {}
    for path, source in sources:
        if source.id in known:
            problems.append(_duplicate_id(path, source.id, "source"))
        known[source.id] = source
        problems += check_source(path, source)
        problems += check_write_keys(path, source, write_keys)
        write_keys.update(dict.fromkeys(source.write_keys, source.id))
    seen: set[str] = set()
    for path, destination in destinations:
        if destination.id in seen:
            problems.append(_duplicate_id(path, destination.id, "destination"))
        seen.add(destination.id)
        problems += check_destination(path, destination)
        problems += check_plan(path, destination, plan_level)
        problems += check_sources(path, destination, known)
    named: set[tuple[str, str]] = set()
    placed: list[tuple[str, Definition]] = [*audiences, *computed_traits]
    for path, definition in placed:
        kind = kind_of(definition)
        if (kind, definition.id) in named:
            problems.append(_duplicate_id(path, definition.id, WORDS[kind]))
        named.add((kind, definition.id))
    among = Surroundings({each.id: each for _, each in audiences}, {each.id: each for _, each in computed_traits}, seen)
    problems += check_definitions(placed, among)
    rules: set[str] = set()
    for path, rule in notifications:
        if rule.id in rules:
            problems.append(_duplicate_id(path, rule.id, "notification"))
        rules.add(rule.id)
        problems += check_notification(path, rule, seen, known)
    counts: dict[Kind, int] = {"source": len(known), "destination": len(seen), "notification": len(rules)}
    return problems + check_counts(counts | {"audience": len(among.audiences), "computedTrait": len(among.traits)})


def check_definitions(placed: Sequence[tuple[str, Definition]], among: Surroundings) -> list[Problem]:
    """Return the problems of audiences and computed traits, each with its path, ``among`` all there are with them.

    What lies between them is looked at once each is right by itself.
    """
    problems = [
        Problem(code, join(path, place), text)
        for path, definition in placed
        for code, place, text in definition_problems(definition)
    ]
    if problems or not placed:
        return problems
    owners = trait_names([*among.traits.values(), *among.audiences.values()])
    return [
        Problem(code, join(path, place), text)
        for path, definition in placed
        for code, place, text in (*problems_together(definition, among), *name_problems(definition, owners))
    ]


def check_source(path: str, source: Source) -> list[Problem]:
    """Return the problems of a source by itself: its id and its rate limit."""
    problems: list[Problem] = []
    if source.id == SYNC_SOURCE:
        # Records have no more than the id: on pages and in deletion requests the two would be one source.
        message = f"{SYNC_SOURCE!r} is the source of what audiences and computed traits sync; choose another id"
        problems.append(Problem("invalid_value", join(path, "id"), message))
    fault = source.rate_limit.fault() if source.rate_limit is not None else None
    if fault is not None:
        problems.append(Problem("invalid_value", join(path, f"rateLimit.{fault[0]}"), fault[1]))
    return problems


def check_write_keys(path: str, source: Source, owners: Mapping[str, str]) -> list[Problem]:
    """Return a write key names one source; ``owners`` maps the keys of all sources to their ids."""
    problems: list[Problem] = []
    for index, key in enumerate(source.write_keys):
        owner = owners.get(key, source.id)
        if owner != source.id or key in source.write_keys[:index]:
            message = f"write key {key!r} is already used by source {owner!r}; each key names one source"
            problems.append(Problem("duplicate_write_key", join(path, f"writeKeys[{index}]"), message))
    return problems


def check_destination(path: str, destination: Destination) -> list[Problem]:
    """Return the problems of a destination by itself: kind, URLs, headers, secrets, filters."""
    problems = [Problem(code, join(path, place), text) for code, place, text in kind_problems(destination)]
    if isinstance(destination.settings, WebhookSettings):
        problems += _check_webhooks(path, destination.settings)
    problems += _check_client_certificate(path, destination)
    for index, filter in enumerate(destination.filters):
        place = join(path, f"filters[{index}]")
        problems += [Problem("invalid_filter", join(place, key), text) for key, text in filter_problems(filter)]
    return problems


def _check_webhooks(path: str, settings: WebhookSettings) -> list[Problem]:
    problems: list[Problem] = []
    for index, webhook in enumerate(settings.webhooks):
        place = join(path, f"settings.webhooks[{index}]")
        problems += _judge("invalid_url", f"{place}.url", parse_receiver_url, webhook.url)
        problems += _judge("invalid_headers", f"{place}.headers", check_static_headers, webhook.headers)
        for name, value in webhook.headers.items():
            if is_reference(value):
                problems += _judge("invalid_secret", f"{place}.headers.{name}", check_secret, value)
    if settings.standard_webhooks is not None:
        place = join(path, "settings.standardWebhooks.secret")
        problems += _judge("invalid_secret", place, check_standard_secret, settings.standard_webhooks.secret)
        problems += _check_standard_headers(path, settings)
    if settings.shared_secret is not None:
        problems += _judge("invalid_secret", join(path, "settings.sharedSecret"), check_secret, settings.shared_secret)
    return problems


def check_plan(path: str, destination: Destination, plan_level: str) -> list[Problem]:
    """Return a problem if the destination has filters and the plan level is below business."""
    if not destination.filters or plan_level == PLAN_LEVEL:
        return []
    message = f"filters need the plan level {PLAN_LEVEL} and this installation has {plan_level}; take them out"
    return [Problem("plan_level", join(path, "filters"), f"{message}, or set plan.level to {PLAN_LEVEL}")]


def _check_client_certificate(path: str, destination: Destination) -> Iterable[Problem]:
    """Both or none, as references: a key that is written out would be in every copy of the connections."""
    settings = destination.settings
    given = {"clientCertificate": settings.client_certificate, "clientKey": settings.client_key}
    for name, value in given.items():
        place = join(path, f"settings.{name}")
        if value is None:
            if any(given.values()):
                message = "clientCertificate and clientKey go together; give both, or none"
                yield Problem("invalid_certificate", place, message)
        elif not is_reference(value):
            message = "write where it is, not what it is: file:NAME in secrets.dir, or env:HOOKLINE_SECRET_X"
            yield Problem("invalid_certificate", place, message)
        else:
            yield from _judge("invalid_certificate", place, check_secret, value)
    urls = [each.url for each in settings.webhooks]
    if any(given.values()) and urls and not any(url.lower().startswith("https:") for url in urls):
        message = "a client certificate is shown over https alone; write https:// in the URL, or leave it out"
        yield Problem("invalid_certificate", join(path, "settings.clientCertificate"), message)


def _check_standard_headers(path: str, settings: WebhookSettings) -> Iterable[Problem]:
    for index, webhook in enumerate(settings.webhooks):
        for name in webhook.headers:
            if name.lower() in STANDARD_WEBHOOKS:
                place = join(path, f"settings.webhooks[{index}].headers")
                yield Problem("invalid_headers", place, f"header {name!r} is set by standardWebhooks: leave it out")


def check_sources(path: str, destination: Destination, known: Mapping[str, object]) -> list[Problem]:
    """Return the sources that a destination names exist, and each is named once."""
    problems: list[Problem] = []
    for index, id in enumerate(destination.sources):
        place = join(path, f"sources[{index}]")
        if id not in known:
            message = f"there is no source {id!r}; add it, or remove it from destination {destination.id!r}"
            problems.append(Problem("unknown_source", place, message))
        elif id in destination.sources[:index]:
            problems.append(Problem("duplicate_id", place, f"source {id!r} is named twice; name it once"))
    return problems


def check_notification(
    path: str, rule: Notification, destinations: Iterable[str], sources: Iterable[str]
) -> list[Problem]:
    """Return the problems of a notification rule, among the destinations and sources that there are."""
    found = [*notification_problems(rule), *reference_problems(rule, destinations, sources)]
    return [Problem(code, join(path, place), text) for code, place, text in found]


def check_counts(counts: Mapping[Kind, int]) -> list[Problem]:
    """Return a problem for each kind of which there are more objects than an installation may have."""
    return [
        Problem("too_many", f"{kind}s", f"there are {count} {WORDS[kind]}s, at most {COUNTS_MAX[kind]} are allowed")
        for kind, count in counts.items()
        if count > COUNTS_MAX[kind]
    ]


def join(path: str, inner: str) -> str:
    """Return the path of something inside of what is at ``path``."""
    return path + inner if inner.startswith("[") or not path or not inner else f"{path}.{inner}"


def _duplicate_id(path: str, id: str, kind: str) -> Problem:
    return Problem("duplicate_id", join(path, "id"), f"another {kind} has the id {id!r}; ids are unique")


def _judge(code: ProblemCode, path: str, rule: Callable[[Any], object], value: object) -> list[Problem]:
    try:
        rule(value)
    except ValueError as error:
        return [Problem(code, path, str(error))]
    return []


_WITH_PROPERTIES = ("dropProperties", "allowProperties")


def filter_problems(filter: Filter) -> Iterator[tuple[str, str]]:
    """Yield the key and a sentence for each thing wrong."""
    try:
        parse(filter.condition, EVENT_FIELDS)
    except ExpressionError as error:
        yield "if", str(error)
    if filter.do == "sample" and filter.percent is None:
        yield "percent", "say how many percent of the events are sent, such as percent: 10"
    if filter.do != "sample" and filter.percent is not None:
        yield "percent", f"percent belongs to do: sample, not to {filter.do}; take it out"
    if filter.do in _WITH_PROPERTIES and not filter.properties:
        yield "properties", f"say which fields {filter.do} means, such as properties: [properties.card]"
    if filter.do not in _WITH_PROPERTIES and filter.properties is not None:
        yield (
            "properties",
            f"properties belong to dropProperties and allowProperties, not to {filter.do}; take them out",
        )
    for index, path in enumerate(filter.properties or () if filter.do in _WITH_PROPERTIES else ()):
        sentence = _path_problem(path)
        if sentence is not None:
            yield f"properties[{index}]", sentence


def _path_problem(path: str) -> str | None:
    try:
        first = parse_path(path)[0]
    except ExpressionError as error:
        return str(error)
    if first in EVENT_OBJECTS:
        return None
    return f"begin the path with properties, traits or context, not with {first!r}; other fields are always sent"
