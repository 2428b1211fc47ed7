"""What people and kinds write of the requests that an event becomes; one definition for file, API, page and manifest.

``url``, ``query``, ``headers``, ``body``, ``form`` and ``raw`` are mappings (``mapping/``) over the event's fields and
``settings``; conditions are expressions. ``requests.py`` compiles all of it, ``settings.py`` reads a kind's settings.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

Json: TypeAlias = Any
"""Free-form JSON."""

REQUESTS_MAX = 50
"""Requests in a mapping."""
PER_EVENT_MAX = 5
"""Requests that one event may become."""
BATCH_SIZE_MAX = 1_000
"""Events in a request: a lane holds twice as many in its queue."""
BATCH_BYTES_MAX = 16 * 1024 * 1024
SINK_BATCH_SIZE_MAX = 10_000
"""Events that a sink takes together."""
BATCH_WAIT_SECONDS_MAX = 60.0

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
"""Not HEAD: its answer has no body although it gives a length, and nobody takes events by it."""
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class SinkBatch(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Say how a sink gathers events: at most ``size`` of them, ``bytes`` of JSON, or what came within ``wait``
    seconds."""

    size: Annotated[int, msgspec.Meta(ge=1, le=SINK_BATCH_SIZE_MAX)] = 1_000
    bytes: Annotated[int, msgspec.Meta(ge=1_024, le=BATCH_BYTES_MAX)] = 8_000_000
    wait: Annotated[float, msgspec.Meta(ge=0, le=BATCH_WAIT_SECONDS_MAX)] = 1.0


class Items(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Find in an answer which items of a batch failed; ``path`` leads to a list or an object in the answer.

    ``each``: there is one entry for each item, in their order. ``named``: entries name the items that failed: an entry
    is an item's number itself, or holds it at ``index``; an object's values are looked at as a list. ``status`` and
    ``error`` lead from an entry to the item's status (200 to 299 is accepted) and to words; ``*`` stands for the only
    key of an object. ``accepted``: other statuses of an item that has arrived, such as 409 for one that is there.
    ``retry``: items named here are tried again, whatever their status.
    """

    path: Label
    entries: Literal["each", "named"] = "named"
    index: Label | None = None
    status: Label | None = None
    error: Label | None = None
    accepted: Annotated[tuple[int, ...], msgspec.Meta(max_length=10)] = ()
    retry: bool = False


class Success(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Decide what an answer means, by expressions over its ``status``, ``body`` (JSON), ``text`` and ``headers``.

    ``if`` holds for an answer that accepts (without it: any 2xx). Of the others, ``refused`` says that the fault is the
    event's, so that it becomes a dead letter and the receiver is not blamed, and ``retry`` that another try may help;
    what neither names is judged by its status. ``items``: which items of a batch failed. ``others``: what became of the
    items that are not named when the answer as a whole does not accept.
    """

    condition: Text | None = msgspec.field(name="if", default=None)
    refused: Text | None = None
    retry: Text | None = None
    items: Annotated[tuple[Items, ...], msgspec.Meta(max_length=10)] = ()
    others: Literal["accepted", "retry"] = "retry"


class Batch(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Gathers events into one request: at most ``size`` of them and ``bytes`` of body, or what came within ``wait``.

    The bodies become a JSON ``array``, ``lines`` (a body that is a list gives one line for each element), or the list
    ``field`` of the object ``with``, which is a mapping over ``settings``. Each of them is an item of the request.
    """

    size: Annotated[int, msgspec.Meta(ge=1, le=BATCH_SIZE_MAX)] = 100
    bytes: Annotated[int, msgspec.Meta(ge=1_024, le=BATCH_BYTES_MAX)] = 500_000
    wait: Annotated[float, msgspec.Meta(ge=0, le=BATCH_WAIT_SECONDS_MAX)] = 1.0
    """Seconds."""
    format: Literal["array", "lines", "object"] = "array"
    field: Label | None = None
    envelope: Json = msgspec.field(name="with", default=None)


class Request(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """One request that an event becomes if ``if`` holds for it.

    ``url``: text, or a template; its host is fixed by the text and the settings, what the event gives is encoded.
    Of ``body`` (JSON), ``form`` and ``raw`` (text) at most one; without any the body is the one that webhooks get.
    """

    name: Label
    condition: Text | None = msgspec.field(name="if", default=None)
    method: Method = "POST"
    url: Json
    query: Annotated[dict[str, Json], msgspec.Meta(max_length=50)] = {}
    headers: Annotated[dict[str, Json], msgspec.Meta(max_length=50)] = {}
    body: Json | msgspec.UnsetType = msgspec.UNSET
    form: Annotated[dict[str, Json], msgspec.Meta(max_length=200)] | None = None
    raw: Json | msgspec.UnsetType = msgspec.UNSET
    success: Success | None = None
    batch: Batch | None = None


Requests = Annotated[tuple[Request, ...], msgspec.Meta(max_length=REQUESTS_MAX)]


class Auth(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Say how requests show who they come from; each value is text or a template over ``settings``.

    ``basic``: ``username`` and ``password``. ``bearer`` and ``apikey``: ``token``, behind ``Bearer`` or ``ApiKey``.
    ``oauth2``: a token is fetched at ``tokenUrl`` with ``clientId`` and ``clientSecret`` (client credentials, RFC 6749
    section 4.4), kept, and renewed before it ends.
    Client certificates are the settings ``clientCertificate`` and ``clientKey`` of any kind that has them.
    """

    type: Literal["none", "basic", "bearer", "apikey", "oauth2"] = "none"
    username: str = ""
    password: str = ""
    token: str = ""
    token_url: str = ""
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    audience: str = ""


Line = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Sentence = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Call = Literal["identify", "track", "page", "screen", "group", "alias", "delete"]


class FieldGuide(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The description of one setting. ``path`` is its place in a destination."""

    path: Line
    label: Line
    help: Sentence
    required: bool = False
    secret: bool = False
    example: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Needs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Hold what a kind needs that is not always installed: modules, and the extra of the package that brings them."""

    extra: Line
    modules: Annotated[tuple[Line, ...], msgspec.Meta(min_length=1, max_length=10)]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A kind as its ``kind.yaml`` describes it.

    ``publishedName`` is what the ``integrations`` object of an event calls it. ``calls`` are the types that are of use
    to it. How events leave it is one of three: ``webhook``, the webhook request with its settings (``urlPrefixes`` are
    what its URLs begin with, ``headers`` are sent with each of its requests); ``requests``, a mapping over the event
    and ``settings``; or ``sink``, the name of a Python module. ``settings`` is the JSON Schema of the settings of the
    last two (``settings.py`` has the part of it that is understood); a string with ``secret: true`` is a secret.
    """

    name: Line
    published_name: Line
    description: Sentence
    category: Line = "Webhooks"
    mode: Literal["cloud"] = "cloud"
    component: Literal["server"] = "server"
    source_types: tuple[Literal["web", "mobile", "server"], ...] = ("web", "mobile", "server")
    calls: tuple[Call, ...]
    fields: Annotated[tuple[FieldGuide, ...], msgspec.Meta(max_length=50)] = ()
    url_prefixes: Annotated[tuple[Line, ...], msgspec.Meta(max_length=20)] = ()
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=20)] = {}
    webhook: dict[str, Json] | None = None
    requests: Requests | None = None
    sink: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*\Z", max_length=200)] | None = None
    batch: SinkBatch | None = None
    """How a sink gathers events; requests have their own."""
    needs: Needs | None = None
    auth: Auth | None = None
    settings: dict[str, Json] = {}

    def __post_init__(self) -> None:
        """Refuse a manifest with two ways out."""
        ways = [name for name in ("webhook", "requests", "sink") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ValueError(f"events leave one way: keep one of {' and '.join(ways)}")
        if self.form != "webhook" and (self.url_prefixes or self.headers or self.fields):
            raise ValueError("urlPrefixes, headers and fields belong to webhook; write settings in their place")

    @property
    def form(self) -> Literal["webhook", "requests", "sink"]:
        """Return how events leave it."""
        return "requests" if self.requests is not None else "sink" if self.sink is not None else "webhook"


class KindSettings(dict[str, Json]):
    """The settings of a destination that is no webhook, as its kind's schema allows them.

    What the settings of a webhook have and these do not is empty here, so that whoever asks of any destination which
    webhooks or signatures it has gets an answer.
    """

    __slots__ = ()

    @property
    def webhooks(self) -> tuple[()]:
        """Return none."""
        return ()

    @property
    def shared_secret(self) -> None:
        """Return none."""
        return None

    @property
    def standard_webhooks(self) -> None:
        """Return none."""
        return None

    @property
    def client_certificate(self) -> str | None:
        """Return the reference to the client certificate, where the kind has one."""
        found = self.get("clientCertificate")
        return found if isinstance(found, str) and found else None

    @property
    def client_key(self) -> str | None:
        """Return the reference to its key."""
        found = self.get("clientKey")
        return found if isinstance(found, str) and found else None

    @property
    def certificate_pair(self) -> tuple[str, str] | None:
        """Return both references, None where one is missing."""
        certificate, key = self.client_certificate, self.client_key
        return None if certificate is None or key is None else (certificate, key)
