"""The rules that say who gets which notices, and when: their shape, and what makes one wrong.

Which notices there are is ``telemetry.notices``'; when a rule speaks, and how, is ``features.notifications``'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import time as time_of_day
from hashlib import sha256
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import force_setattr

from hookline.connections.names import Id, Name
from hookline.connections.receiver_url import parse_receiver_url
from hookline.secret_references import check_secret, is_reference, mask
from hookline.setting_values import parse_duration
from hookline.telemetry.notices import TRIGGERS, ThresholdName

RECIPIENTS_MAX = 20
CHANNELS_MAX = 10
FILTER_IDS_MAX = 1_000
REMIND_SECONDS_MIN = 300.0
LASTING_SECONDS_MAX = 30 * 86_400.0
DEFAULT_SHARE_SECONDS = 300.0
"""Over how long a share of failed requests is judged where the rule does not say ``for``."""

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
SeverityName = Literal["info", "warning", "critical"]
TriggerName = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(TRIGGERS)})]
"""Told of by a sentence of our own, not by the decoder's: what is wrong is named with what there is."""
Duration = Annotated[str, msgspec.Meta(min_length=1, max_length=20)]
Clock = Annotated[str, msgspec.Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]\Z")]

# The common part of RFC 5321's addresses: no quoted names, no comments, nothing that could end a header.
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9-]{1,63}"
)


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Settings for what a rule is made of."""


class SlackChannel(_Part, frozen=True):
    """An incoming webhook of Slack; its URL is a secret, or a reference to one."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]


class WebhookChannel(_Part, frozen=True):
    """A URL that gets each message as JSON, signed with ``secret`` like events."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]
    secret: Annotated[str, msgspec.Meta(max_length=4_096)] | None = None


class Channel(_Part, frozen=True):
    """The way that messages go: give exactly one of the three."""

    email: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=RECIPIENTS_MAX)] | None = None
    slack: SlackChannel | None = None
    webhook: WebhookChannel | None = None

    @property
    def kind(self) -> Literal["email", "slack", "webhook"]:
        """Return which of the three it is."""
        return "email" if self.email is not None else "slack" if self.slack is not None else "webhook"

    @property
    def key(self) -> str:
        """Return what tells it from every other channel and shows none of its secrets."""
        return sha256(msgspec.json.encode(self)).hexdigest()[:16]

    @property
    def shown(self) -> str:
        """Return what people may see of it."""
        if self.email is not None:
            return ", ".join(self.email)
        if self.slack is not None:
            return f"Slack {mask(self.slack.url)}"
        return parse_receiver_url(self.webhook.url).host if self.webhook is not None else ""


class Threshold(_Part, frozen=True):
    """When a rule sends: ``for`` is how long the problem must last, ``count`` the number of events within an hour,
    ``failedShare`` the share of failed requests, from 0 to 1."""

    lasting: Duration | None = msgspec.field(name="for", default=None)
    count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] | None = None
    failed_share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None


class QuietHours(_Part, frozen=True):
    """When messages wait: ``from`` one time ``to`` another on the clock of ``timeZone``, over midnight where the end
    comes first. ``days`` are those on which it begins; none is every day. Severities in ``except`` do not wait."""

    start: Clock = msgspec.field(name="from")
    end: Clock = msgspec.field(name="to")
    time_zone: Annotated[str, msgspec.Meta(max_length=64)] = "UTC"
    days: Annotated[tuple[Day, ...], msgspec.Meta(max_length=7)] = ()
    except_: Annotated[tuple[SeverityName, ...], msgspec.Meta(max_length=3)] = msgspec.field(name="except", default=())


class Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A rule that sends notices to people.

    ``when`` lists its triggers. ``destinations`` and ``sources`` restrict triggers that are about one; empty means all.
    ``to`` is one channel or a list of channels. ``remindEvery`` repeats the message while the problem lasts.
    """

    id: Id
    name: Name
    enabled: bool = True
    when: Annotated[tuple[TriggerName, ...], msgspec.Meta(min_length=1, max_length=100)]
    destinations: Annotated[tuple[Id, ...], msgspec.Meta(max_length=FILTER_IDS_MAX)] = ()
    sources: Annotated[tuple[Id, ...], msgspec.Meta(max_length=FILTER_IDS_MAX)] = ()
    threshold: Threshold | None = None
    to: Channel | Annotated[tuple[Channel, ...], msgspec.Meta(min_length=1, max_length=CHANNELS_MAX)]
    quiet_hours: QuietHours | None = None
    remind_every: Duration | None = None

    def __post_init__(self) -> None:
        if isinstance(self.to, Channel):
            force_setattr(self, "to", (self.to,))
        if self.threshold == Threshold():
            force_setattr(self, "threshold", None)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Return every channel."""
        return (self.to,) if isinstance(self.to, Channel) else self.to

    @property
    def lasting_seconds(self) -> float | None:
        """Return how long something must have lasted, None where the rule does not say."""
        lasting = None if self.threshold is None else self.threshold.lasting
        return None if lasting is None else parse_duration(lasting)

    @property
    def remind_seconds(self) -> float | None:
        """Return how often the rule says again what lasts; None: it does not."""
        return None if self.remind_every is None else parse_duration(self.remind_every)

    @property
    def zone(self) -> str:
        """Return the time zone that its messages write times in."""
        return "UTC" if self.quiet_hours is None else self.quiet_hours.time_zone

    def covers(self, trigger: str, subject: str, everything: str) -> bool:
        """Return whether it waits for this trigger about this subject; ``everything`` is the subject of the notice that
        stands for many, which only a rule without a filter covers."""
        if not self.enabled or trigger not in self.when:
            return False
        about = TRIGGERS[trigger].about
        wanted = self.destinations if about == "destination" else self.sources if about == "source" else ()
        return not wanted or (subject != everything and subject in wanted)


AT_ONCE_SECONDS = 1.0
"""What a rule gets that is to notify at once: without any threshold there is no notice."""


def lowest_count(rules: Iterable[Notification], trigger: str, subject: str, setting: int) -> int:
    """Return from how many on there is a notice: the setting, or less where a rule for this subject asks for it."""
    asked = [
        rule.threshold.count
        for rule in rules
        if rule.covers(trigger, subject, "") and rule.threshold is not None and rule.threshold.count is not None
    ]
    return min([*asked, *([setting] if setting else [])], default=0)


def lowest_seconds(rules: Iterable[Notification], trigger: str, subject: str, setting: float) -> float:
    """Return after how long there is a notice: the setting, or less where a rule for this subject asks for it."""
    asked = [
        max(seconds, AT_ONCE_SECONDS)
        for rule in rules
        if rule.covers(trigger, subject, "")
        and (rule.threshold is None or rule.threshold.failed_share is None)
        and (seconds := rule.lasting_seconds) is not None
    ]
    return min([*asked, *([setting] if setting else [])], default=0)


NotificationProblem = tuple[
    Literal["invalid_value", "invalid_url", "invalid_secret", "unknown_destination", "unknown_source"], str, str
]


def notification_problems(rule: Notification) -> Iterator[NotificationProblem]:
    """Yield code, path and sentence for everything wrong with a rule by itself."""
    for index, name in enumerate(rule.when):
        if name not in TRIGGERS:
            yield (
                "invalid_value",
                f"when[{index}]",
                f"there is no trigger {name[:64]!r}; write some of {', '.join(TRIGGERS)}",
            )
        elif name in rule.when[:index]:
            yield "invalid_value", f"when[{index}]", f"{name!r} is named twice; name it once"
    yield from _filter_problems(rule)
    yield from _threshold_problems(rule)
    for index, channel in enumerate(rule.channels):
        for code, place, text in _channel_problems(channel):
            yield code, f"to[{index}]{place}", text
    if rule.remind_every is not None:
        yield from _duration_problems("remindEvery", rule.remind_every, REMIND_SECONDS_MIN)
    if rule.quiet_hours is not None:
        yield from _quiet_problems(rule.quiet_hours)


def _filter_problems(rule: Notification) -> Iterator[NotificationProblem]:
    abouts = {TRIGGERS[name].about for name in rule.when if name in TRIGGERS}
    for key, about, ids in (("destinations", "destination", rule.destinations), ("sources", "source", rule.sources)):
        if ids and abouts and about not in abouts:
            yield "invalid_value", key, f"nothing in `when` is about a {about}; take {key} out, or add such a trigger"


def _threshold_problems(rule: Notification) -> Iterator[NotificationProblem]:
    if rule.threshold is None:
        return
    given: dict[ThresholdName, object] = {
        "for": rule.threshold.lasting,
        "count": rule.threshold.count,
        "failedShare": rule.threshold.failed_share,
    }
    for name, value in given.items():
        takes = [each for each, trigger in TRIGGERS.items() if name in trigger.thresholds]
        if value is not None and not set(rule.when) & set(takes):
            meant = ", ".join(takes)
            yield "invalid_value", f"threshold.{name}", f"`{name}` means something for {meant} alone; take it out"
    if rule.threshold.lasting is not None:
        yield from _duration_problems("threshold.for", rule.threshold.lasting, 0)


def _duration_problems(path: str, text: str, seconds_min: float) -> Iterator[NotificationProblem]:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        yield "invalid_value", path, str(error)
        return
    if not seconds_min <= seconds <= LASTING_SECONDS_MAX:
        yield "invalid_value", path, f"write a duration from {seconds_min:g}s to 30d"


def _quiet_problems(quiet: QuietHours) -> Iterator[NotificationProblem]:
    if quiet.start == quiet.end:
        yield "invalid_value", "quietHours.to", "quiet hours that end when they begin are none; write another time"
    try:
        ZoneInfo(quiet.time_zone)
    except (OSError, ValueError, KeyError):  # a folder, a path, or nothing at all
        text = "there is no such time zone; write one such as Europe/Berlin, America/New_York or UTC"
        yield "invalid_value", "quietHours.timeZone", text


def _channel_problems(channel: Channel) -> Iterator[NotificationProblem]:
    given = [each for each in (channel.email, channel.slack, channel.webhook) if each is not None]
    if len(given) != 1:
        yield "invalid_value", "", "give exactly one of email, slack and webhook for each entry"
        return
    for index, address in enumerate(channel.email or ()):
        if _ADDRESS.fullmatch(address) is None or len(address) > 254:
            yield "invalid_value", f".email[{index}]", "write an address such as ops@example.com, without a name"
    if channel.slack is not None:
        if is_reference(channel.slack.url):
            yield from _secret_problems(".slack.url", channel.slack.url)
        else:
            yield from _url_problems(".slack.url", channel.slack.url)
    if channel.webhook is not None:
        yield from _url_problems(".webhook.url", channel.webhook.url)
        if channel.webhook.secret is not None:
            yield from _secret_problems(".webhook.secret", channel.webhook.secret)


def _url_problems(path: str, url: str) -> Iterator[NotificationProblem]:
    try:
        parse_receiver_url(url)
    except ValueError as error:
        yield "invalid_url", path, str(error)


def _secret_problems(path: str, secret: str) -> Iterator[NotificationProblem]:
    try:
        check_secret(secret)
    except ValueError as error:
        yield "invalid_secret", path, str(error)


def reference_problems(
    rule: Notification, destinations: Iterable[str], sources: Iterable[str]
) -> Iterator[NotificationProblem]:
    """Yield what a rule names and what does not exist."""
    known = {"destination": set(destinations), "source": set(sources)}
    for index, id in enumerate(rule.destinations):
        if id not in known["destination"]:
            yield "unknown_destination", f"destinations[{index}]", f"there is no destination {id!r}; take it out"
    for index, id in enumerate(rule.sources):
        if id not in known["source"]:
            yield "unknown_source", f"sources[{index}]", f"there is no source {id!r}; take it out"


def clock_of(text: str) -> time_of_day:
    """Return a time of the clock such as ``22:00``."""
    return time_of_day.fromisoformat(text)


def enabled_rules(rules: Sequence[Notification]) -> tuple[Notification, ...]:
    """Return those that speak."""
    return tuple(rule for rule in rules if rule.enabled)
