"""The objects people configure: one definition serves the connections file, the admin API and the database.

A ``Snapshot`` is everything in force at one version, as the other roles load it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.connections.names import Id, Name
from hookline.connections.notifications import Notification
from hookline.kinds.catalog import OWN, kind_of
from hookline.kinds.model import KindSettings, Requests
from hookline.rate_limit import RateLimit

WEBHOOKS_MAX = 5
"""Receiver URLs per destination."""
WRITE_KEYS_MAX = 20
"""Write keys per source."""
FILTERS_MAX = 50
"""Filters per destination."""
FILTER_PROPERTIES_MAX = 200
"""Paths per filter."""
SETTINGS_DEPTH_MAX = 128
"""As deep as a mapping; no kind needs a tenth of it. What walks through settings takes stack for each level."""

BATCH_BYTES_MIN = 512_000
"""What every source takes in one batch, after inflation: more than Segment's SDKs send."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""What a source may ask for: RudderStack's SDKs send no more, and drop what is refused."""

WriteKey = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[!-9;-~]+\Z")]


class Source(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A website, app or server that sends events with one of its write keys. The id ``profiles`` is taken: audiences
    and computed traits sync under it. The numbers of ``rateLimit`` override those of ``collect.rate_limit``.
    ``batchBytes`` is the largest batch after inflation.
    """

    id: Id
    name: Name
    type: Literal["web", "mobile", "server"] = "server"
    enabled: bool = True
    write_keys: Annotated[tuple[WriteKey, ...], msgspec.Meta(max_length=WRITE_KEYS_MAX)] = ()
    rate_limit: RateLimit | None = None
    batch_bytes: Annotated[int, msgspec.Meta(ge=BATCH_BYTES_MIN, le=BATCH_BYTES_MAX)] = BATCH_BYTES_MIN


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One receiver URL with the static headers of its requests."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]
    headers: dict[str, str] = {}


SecretSetting = Literal["sharedSecret", "standardWebhooks"]
"""The settings that hold a secret to sign with, each of which rotates by itself."""


class StandardWebhooks(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Adds the headers of the Standard Webhooks specification; ``secret`` is ``whsec_…`` or a reference to it.

    The API also takes ``generate: true`` in place of a secret, makes one and shows it in that answer only.
    """

    secret: str


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Settings of a destination of kind ``webhook``. ``sharedSecret`` can be a reference, ``env:HOOKLINE_SECRET_X`` or
    ``file:NAME``. ``clientCertificate`` and ``clientKey`` (PEM) must be references; they are used for mutual TLS.
    """

    webhooks: Annotated[tuple[Webhook, ...], msgspec.Meta(min_length=1, max_length=WEBHOOKS_MAX)]
    shared_secret: str | None = None
    standard_webhooks: StandardWebhooks | None = None
    client_certificate: str | None = None
    client_key: str | None = None

    @property
    def certificate_pair(self) -> tuple[str, str] | None:
        """Return the references to the client certificate and its key, None where there are none."""
        if self.client_certificate is None or self.client_key is None:
            return None
        return self.client_certificate, self.client_key


class Rotation(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """One replacement of a secret: until ``until`` requests are signed with ``previous`` too.

    ``previous`` is null once nothing is signed with it any more; ``digest`` then still tells it from other secrets.
    """

    setting: SecretSetting
    since: str
    until: str
    previous: str | None = None
    digest: str = ""


class DeliveryOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The way events are sent to a destination; by default as fast as the receiver takes them.

    ``fanOut``: ``any`` URL that accepts ends it, ``all`` URLs must accept and each is retried by
    itself, or ``fallback``: the next URL is tried only when the one before has failed. ``maxConcurrency``: events
    being sent at once. ``maxRate``: events begun per second. Both hold for live events, retries and replays, and for
    all deliver processes, together. ``order``: ``user`` sends one user's events one after the other, oldest first; one
    that has failed ``setAsideAfter`` times no longer holds up the user's others.
    """

    fan_out: Literal["any", "all", "fallback"] = "any"
    max_concurrency: Annotated[int, msgspec.Meta(ge=1, le=4_096)] | None = None
    max_rate: Annotated[float, msgspec.Meta(ge=0.01, le=1_000_000)] | None = None
    order: Literal["none", "user"] = "none"
    set_aside_after: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5


class Filter(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A rule for the events of a destination that meet a condition.

    ``drop`` does not send them, ``sample`` sends only ``percent`` of them, ``dropProperties`` and ``allowProperties``
    send them without the paths in ``properties``, or with only those.
    """

    condition: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="if")
    do: Literal["drop", "sample", "dropProperties", "allowProperties"]
    percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    properties: Annotated[tuple[str, ...], msgspec.Meta(max_length=FILTER_PROPERTIES_MAX)] | None = None


AnySettings: TypeAlias = WebhookSettings | KindSettings

SETTINGS_DESCRIPTION = "As the kind asks for; of a webhook: WebhookSettings."
if TYPE_CHECKING:
    DestinationSettings = AnySettings
else:
    # Which of the two it is depends on the kind, which a decoder does not know: ``Destination`` makes it itself.
    DestinationSettings = Annotated[Any, msgspec.Meta(extra_json_schema={"description": SETTINGS_DESCRIPTION})]


class Destination(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The place where events are sent: a kind from the catalog, its settings, and its sources.

    ``settings`` are ``WebhookSettings``, or what the kind's schema allows. ``mapping`` is the list of requests that an
    event becomes, in place of those of the kind; a webhook has none. ``rotations`` changes only when a secret is
    rotated; a value in a request is ignored.
    """

    id: Id
    name: Name
    kind: Id = OWN
    sources: tuple[Id, ...] = ()
    enabled: bool = True
    settings: DestinationSettings
    mapping: Requests | None = None
    delivery: DeliveryOptions = DeliveryOptions()
    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=FILTERS_MAX)] = ()
    rotations: tuple[Rotation, ...] = ()

    def __post_init__(self) -> None:
        """Read the settings as the kind has them; raise ValueError, with the place, for those of a webhook."""
        settings: object = self.settings
        if isinstance(settings, WebhookSettings | KindSettings):
            return
        made: WebhookSettings | KindSettings
        is_strange = self.kind != OWN and kind_of(self.kind) is None  # the check names it; a shape would only confuse
        if is_webhook(self.kind) and not (is_strange and isinstance(settings, dict) and "webhooks" not in settings):
            try:
                made = msgspec.convert(settings, WebhookSettings)
            except msgspec.ValidationError as error:
                text = str(error)
                place = text.replace("`$", "`$.settings") if " - at " in text else f"{text} - at `$.settings`"
                raise ValueError(place) from None
        elif isinstance(settings, dict):
            if is_too_deep(settings):
                raise ValueError(f"{TOO_DEEP} - at `$.settings`")
            made = KindSettings(settings)
        else:
            raise ValueError("Expected `object` - at `$.settings`")
        msgspec.structs.force_setattr(self, "settings", made)


TOO_DEEP = f"settings are nested at most {SETTINGS_DEPTH_MAX} levels deep"


def is_too_deep(settings: object) -> bool:
    """Return whether settings are nested deeper than any may be; take no stack for it."""
    level = [settings]
    for _ in range(SETTINGS_DEPTH_MAX):
        level = [inner for each in level if isinstance(each, dict) for inner in each.values()] + [
            inner for each in level if isinstance(each, list) for inner in each
        ]
    return any(isinstance(each, dict | list) for each in level)


def is_sink(kind: str) -> bool:
    """Return whether destinations of a kind make no requests."""
    found = None if kind == OWN else kind_of(kind)
    return found is not None and found.manifest.form == "sink"


def is_webhook(kind: str) -> bool:
    """Return whether destinations of a kind are webhooks with another name; those of an unknown kind are."""
    if kind == OWN:
        return True
    found = kind_of(kind)
    return found is None or found.manifest.form == "webhook"


Offsets = dict[int, int]
"""An offset per partition."""


class Pause(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Since when (ms) a destination is paused, and why; ``by`` Hookline itself when every URL answered 410.

    ``steady_since`` is the same by the service's own clock, which says how long it lasted; None in older ones.
    """

    since: int
    steady_since: int | None = None
    reason: str = ""
    by: Literal["person", "hookline"] = "person"

    @property
    def began_ms(self) -> int:
        """Return since when, by the service's own clock where that is known."""
        return self.since if self.steady_since is None else self.steady_since


class LaneConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The stream of one enabled destination: its number and, per source, the offsets at which it begins.

    ``number`` is given once, when the destination is enabled, and never used again. ``sources`` maps a source id to
    the journal's end when that source was connected (or the destination enabled): an event of the source belongs to
    the lane exactly if its offset is not below that. While ``paused`` its events park; ``catch_up_rate`` is how many
    per second it then catches up with, None as many as the receiver takes, and ``pauses`` how many have ended: one that
    nobody saw is known by it. ``until`` is set when the destination was disabled but is to get what was accepted
    before: the journal's ends of then, where the lane ends. ``since`` are its ends when the destination was enabled,
    for what is aimed at it; None where an earlier version did that.
    """

    number: int
    sources: dict[str, Offsets]
    paused: Pause | None = None
    catch_up_rate: float | None = None
    pauses: int = 0
    until: Offsets | None = None
    since: Offsets | None = None

    def has_resumed(self, before: LaneConfig) -> bool:
        """Return whether since ``before`` a pause has ended, or another rate was chosen for what waited in it."""
        ended = self.pauses > before.pauses or (self.paused is None and before.paused is not None)
        return ended or self.catch_up_rate != before.catch_up_rate


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in force at one version, secrets not yet resolved. ``lanes`` is keyed by destination id."""

    version: int
    sources: tuple[Source, ...] = ()
    destinations: tuple[Destination, ...] = ()
    audiences: tuple[Audience, ...] = ()
    computed_traits: tuple[ComputedTrait, ...] = ()
    notifications: tuple[Notification, ...] = ()
    lanes: dict[str, LaneConfig] = {}


PREFIX = "wk_"
_RANDOM_BYTES = 18


def new_write_key() -> str:
    """Return a key nobody can guess (144 bits), recognisable by its prefix."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
