"""The objects people configure: one definition serves the connections file, the admin API and the database.

A ``Snapshot`` is everything in force at one version, as the other roles load it.
"""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Literal

import msgspec

from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.connections.names import Id, Name
from hookline.rate_limit import RateLimit

WEBHOOKS_MAX = 5
"""Receiver URLs per destination."""
WRITE_KEYS_MAX = 20
"""Write keys per source."""
FILTERS_MAX = 50
"""Filters per destination."""
FILTER_PROPERTIES_MAX = 200
"""Paths per filter."""

BATCH_BYTES_MIN = 512_000
"""What every source takes in one batch, after inflation: more than Segment's SDKs send."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""What a source may ask for: RudderStack's SDKs send no more, and drop what is refused."""

WriteKey = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[!-9;-~]+\Z")]


class Source(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A website, app or server that sends events; any of its write keys names it.

    ``rate_limit`` goes before ``collect.rate_limit``, number by number; ``batch_bytes``: how large a batch it takes,
    after inflation.
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
    """Asks for the headers of the Standard Webhooks specification; ``secret`` is ``whsec_…`` or a reference to it.

    The API also takes ``generate: true`` in place of a secret, makes one and shows it in that answer only.
    """

    secret: str


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Settings of a destination of kind ``webhook``.

    ``shared_secret`` may be a reference, ``env:HOOKLINE_SECRET_X`` or ``file:NAME``. ``client_certificate`` and
    ``client_key``, PEM, always are: with them requests show who they come from to receivers that ask (mutual TLS).
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
    """One replacement of a secret: until ``until`` requests are signed with ``previous`` too (``rotation.py``).

    ``previous`` is None once nothing is signed with it any more; ``digest`` then still tells it from other secrets.
    """

    setting: SecretSetting
    since: str
    until: str
    previous: str | None = None
    digest: str = ""


class DeliveryOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The way events are sent to a destination; by default as fast as the receiver takes them.

    ``fan_out``: ``any`` URL that accepts ends it, ``all`` URLs must accept and each is retried by
    itself, or ``fallback``: the next URL is tried only when the one before has failed. ``max_concurrency``: events
    being sent at once. ``max_rate``: events begun per second. Both hold for live events, retries and replays, and for
    all deliver processes, together. ``order``: ``user`` sends one user's events one after the other, oldest first; one
    that has failed ``set_aside_after`` times no longer holds up the user's others.
    """

    fan_out: Literal["any", "all", "fallback"] = "any"
    max_concurrency: Annotated[int, msgspec.Meta(ge=1, le=256)] | None = None
    max_rate: Annotated[float, msgspec.Meta(ge=0.01, le=1_000_000)] | None = None
    order: Literal["none", "user"] = "none"
    set_aside_after: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5


class Filter(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A rule for the events of a destination for which a condition holds.

    ``drop`` does not send them, ``sample`` sends only ``percent`` of them, ``dropProperties`` and ``allowProperties``
    send them without the paths in ``properties``, or with only those.
    """

    condition: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="if")
    do: Literal["drop", "sample", "dropProperties", "allowProperties"]
    percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    properties: Annotated[tuple[str, ...], msgspec.Meta(max_length=FILTER_PROPERTIES_MAX)] | None = None


class Destination(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A place where events go: a kind from the catalog, its settings, and the sources that feed it.

    ``rotations`` only changes when a secret rotates; what comes in with an object is not looked at.
    """

    id: Id
    name: Name
    kind: Id = "webhook"
    sources: tuple[Id, ...] = ()
    enabled: bool = True
    settings: WebhookSettings
    delivery: DeliveryOptions = DeliveryOptions()
    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=FILTERS_MAX)] = ()
    rotations: tuple[Rotation, ...] = ()


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


class LaneConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The stream of one enabled destination: its number and, per source, the offsets at which it begins.

    ``number`` is given once, when the destination is enabled, and never used again. ``sources`` maps a source id to
    the journal's end when that source was connected (or the destination enabled): an event of the source belongs to
    the lane exactly if its offset is not below that. While ``paused`` its events park; ``catch_up_rate`` is how many
    per second it then catches up with, None as many as the receiver takes. ``until`` is set when the destination was
    disabled but is to get what was accepted before: the journal's ends of then, where the lane ends.
    """

    number: int
    sources: dict[str, Offsets]
    paused: Pause | None = None
    catch_up_rate: float | None = None
    until: Offsets | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in force at one version, secrets not yet resolved. ``lanes`` is keyed by destination id."""

    version: int
    sources: tuple[Source, ...] = ()
    destinations: tuple[Destination, ...] = ()
    audiences: tuple[Audience, ...] = ()
    computed_traits: tuple[ComputedTrait, ...] = ()
    lanes: dict[str, LaneConfig] = {}


PREFIX = "wk_"
_RANDOM_BYTES = 18


def new_write_key() -> str:
    """Return a key nobody can guess (144 bits), recognisable by its prefix."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


HEADERS_MAX = 64
HEADERS_BYTES_MAX = 8 * 1024

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A control character could end the header and begin another; beyond Latin-1 there are no bytes for it on the wire.
_UNSENDABLE = re.compile(r"[^\x20-\x7e\xa0-\xff]")
_HEADER_LINE_EXTRA_BYTES = len(": \r\n")

SET_BY_HOOKLINE = frozenset(
    {
        "host",
        "content-length",
        "content-type",
        "user-agent",
        "x-signature",
        "x-signature-next",
        "x-message-id",
        "x-hookline-replay",
    }
)
"""Headers of every webhook request that only Hookline writes."""

STANDARD_WEBHOOKS = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature"})
"""Headers that Hookline writes where a destination asks for Standard Webhooks, and that are free elsewhere."""

HOP_BY_HOP = frozenset({"connection", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers that belong to one connection, not to a message (RFC 9110 section 7.6.1); with every ``Proxy-*``."""


def check_static_headers(headers: dict[str, str]) -> None:
    """Raise ValueError naming the header that cannot be sent, and why."""
    if len(headers) > HEADERS_MAX:
        raise ValueError(f"at most {HEADERS_MAX} static headers are allowed, these are {len(headers)}")
    seen: dict[str, str] = {}
    size_bytes = 0
    for name, value in headers.items():
        _check_name(name)
        if (twin := seen.setdefault(name.lower(), name)) != name:
            raise ValueError(f"headers {twin!r} and {name!r} differ only in case: keep one of them")
        if (match := _UNSENDABLE.search(value)) is not None:
            found = f"U+{ord(match[0]):04X}"
            raise ValueError(f"header {name!r}: remove the character {found} (no control characters, Latin-1 only)")
        size_bytes += len(name) + len(value) + _HEADER_LINE_EXTRA_BYTES
        if size_bytes > HEADERS_BYTES_MAX:
            raise ValueError(f"header {name!r}: static headers may take {HEADERS_BYTES_MAX} bytes together")


def _check_name(name: str) -> None:
    if _TOKEN.fullmatch(name) is None:
        shown = ascii(name[:64])
        raise ValueError(f"header {shown}: a header name is made of letters, digits and hyphens")
    lowered = name.lower()
    if lowered in SET_BY_HOOKLINE:
        raise ValueError(f"header {name!r} is set by Hookline: leave it out")
    if lowered in HOP_BY_HOP or lowered.startswith("proxy-"):
        raise ValueError(f"header {name!r} concerns the connection, not the request: leave it out")
