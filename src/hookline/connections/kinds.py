"""Destinations and their kinds: the requests that a destination makes, and what does not fit its kind."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from hookline.connections.model import Destination, WebhookSettings, is_webhook
from hookline.connections.receiver_url import origin_of, parse_receiver_url
from hookline.connections.request_check import request_problems
from hookline.expressions.lexer import ExpressionError
from hookline.kinds.catalog import OWN, Kind, kind_of, kinds, missing_extra
from hookline.kinds.mapping import MappingError
from hookline.kinds.model import Auth, Json, KindSettings, Request
from hookline.kinds.requests import TARGET_SAFE, CompiledRequest, Plan
from hookline.kinds.settings import change_secrets, schema_of, secrets_in, settings_problems, with_usual
from hookline.kinds.sink import sink_module
from hookline.secret_references import MASK, check_secret, is_reference, stands_for_stored

KindProblemCode = Literal[
    "unknown_kind", "invalid_url", "invalid_headers", "invalid_settings", "invalid_secret", "invalid_mapping"
]
KindProblem: TypeAlias = tuple[KindProblemCode, str, str]
"""Code, path in the destination, and a sentence."""

PLACE_CHARACTERS_MAX = 500
_PLACE = re.compile(r"\{\{\s*settings\.([A-Za-z0-9_.]+)\s*\}\}")
_ORIGIN = re.compile(r"https?://[^/?#]+", re.IGNORECASE)
_STAND_IN = re.compile("hooklinehidesthissecret", re.IGNORECASE)
_NEEDED_BY = {
    "none": (),
    "basic": ("username",),
    "bearer": ("token",),
    "apikey": ("token",),
    "oauth2": ("tokenUrl", "clientId", "clientSecret"),
}


def requests_of(destination: Destination) -> tuple[Request, ...]:
    """Return the requests that a destination makes of events: its own mapping's, else those of its kind."""
    if destination.mapping is not None:
        return destination.mapping
    found = kind_of(destination.kind)
    return () if found is None or found.manifest.requests is None else found.manifest.requests


def plan_of(destination: Destination) -> Plan:
    """Return the compiled requests of a destination whose secrets are resolved; raise ValueError for what was never
    checked."""
    return Plan(requests_of(destination), usual_settings(destination), asked_settings(destination))


def unfit_settings(destination: Destination) -> str | None:
    """Return why nothing can be made of settings that the kind does not have any more: its package was taken away, or
    exchanged for one that takes webhooks; None where that is not so."""
    if not isinstance(destination.settings, KindSettings) or not is_webhook(destination.kind):
        return None
    found = kind_of(destination.kind)
    if found is None:
        return _unknown_kind(destination.kind)
    return f"{found.manifest.name} takes webhooks now, and these settings have none; enter settings.webhooks"


def usual_settings(destination: Destination) -> KindSettings:
    """Return the settings of a destination that is no webhook, with the usual values of what is left out."""
    settings = destination.settings
    assert isinstance(settings, KindSettings)
    return with_usual(destination.kind, settings)


def asked_settings(destination: Destination) -> KindSettings:
    """Return the settings as the conditions of requests see them: of a secret that there is one, and no more. What
    becomes of events shows whether a condition holds, and so would show a secret to whoever may write conditions."""
    return change_secrets(destination.kind, usual_settings(destination), lambda path, secret: STAND_IN)


def auth_of(destination: Destination) -> Auth | None:
    """Return how the requests of a destination show who they come from: its kind's way, else that of its settings.

    Values are templates over the settings. Raise ValueError for settings that name no known way.
    """
    found = kind_of(destination.kind)
    if found is not None and found.manifest.auth is not None:
        return found.manifest.auth
    given = usual_settings(destination).get("auth") if isinstance(destination.settings, KindSettings) else None
    return None if not given else msgspec.convert(given, Auth)


def resolved_auth(destination: Destination) -> Auth | None:
    """Return the way that a destination's requests are authorized, its templates filled with its settings; None for
    none. Raise ValueError for settings that name no known way."""
    auth = auth_of(destination)
    if auth is None or auth.type == "none":
        return None
    settings = usual_settings(destination)
    values = {name: _filled(getattr(auth, name), settings) for name in auth.__struct_fields__ if name != "type"}
    return Auth(type=auth.type, **values)


def _filled(template: str, settings: Mapping[str, Json]) -> str:
    def value(place: re.Match[str]) -> str:
        found: Json = settings
        for part in place[1].split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else ""

    return _PLACE.sub(value, template)


def origins_of(destination: Destination) -> frozenset[tuple[str, ...]]:
    """Return whom the secrets of a destination that is no webhook are sent to.

    Of a sink, and where that cannot be said, it is the settings themselves: another text is another receiver.
    """
    try:
        plan = plan_of(destination)
    except ValueError:
        plan = None
    if plan is None or not plan.requests:
        settings = destination.settings
        return frozenset({("settings", repr(sorted((settings if isinstance(settings, KindSettings) else {}).items())))})
    auth = resolved_auth(destination)
    fetched = {origin_of(auth.token_url)} if auth is not None and auth.type == "oauth2" else set()
    return frozenset({origin_of(each.sample_url) for each in plan.requests} | fetched)


STAND_IN = "HooklineHidesThisSecret"
"""What stands in the place of each secret where a request is only shown: the secret itself is not even there."""


def with_stand_ins(destination: Destination) -> Destination:
    """Return a destination that is no webhook with something in the place of each secret; of one that is a URL the
    origin stays."""

    def stand_in(path: str, secret: str) -> str:
        if is_reference(secret) or stands_for_stored(secret):
            return f"https://hidden.example/{STAND_IN}" if path.lower().endswith("url") else STAND_IN
        origin = _ORIGIN.match(secret)
        return STAND_IN if origin is None else f"{origin[0]}/{STAND_IN}"

    settings = change_secrets(destination.kind, usual_settings(destination), stand_in)
    return replace(destination, settings=settings)


def without_stand_ins(text: str) -> str:
    """Return a text with the mask where a stand-in is, in capitals too."""
    return _STAND_IN.sub(MASK, text)


def sent_forms(secret: str) -> Iterator[str]:
    """Yield a secret as it may stand in a request: as it is, and percent-encoded for a path, a query or a whole URL."""
    for text in {secret, secret.rstrip("/")} - {""}:
        yield from {text, *(quote(text, safe=safe) for safe in ("", "/", TARGET_SAFE))}


def shown_url(request: CompiledRequest, secrets: Sequence[str]) -> str:
    """Return a request's URL as everybody may see it: of one that a secret is a part of only the origin."""
    url = request.sample_url
    if not any(form in url for secret in secrets for form in sent_forms(secret)):
        return request.named_url
    receiver = parse_receiver_url(url)
    return f"{receiver.scheme}://{receiver.host_header}/{MASK}"


def shown_place(destination: Destination) -> str:
    """Return where the events of a sink go, without secrets: what its module says, else its kind and its id."""
    found = kind_of(destination.kind)
    try:
        module = sink_module("" if found is None else found.manifest.sink or "")
        place: str = module.place_of(destination.id, usual_settings(with_stand_ins(destination)))
    except Exception:  # noqa: BLE001 - the border to code that is not ours, which need not say it
        return f"{destination.kind}:{destination.id}"
    return without_stand_ins(place)[:PLACE_CHARACTERS_MAX]


def no_delete_message(destination: Destination) -> str:
    """Return why a delete message becomes no request at a destination, and what to do now, in words."""
    found = kind_of(destination.kind)
    name = destination.kind if found is None else found.manifest.name
    by_hand = "nothing was sent. Delete the person in {} by hand"
    if destination.mapping is not None:
        later = 'for later requests, add one with the condition type = "delete" to the mapping'
        return f"this destination's mapping has no delete message, so {by_hand.format('its service')}; {later}"
    if found is None or "delete" not in found.manifest.calls:
        return f"{name} has no delete message, so {by_hand.format(name)}"
    later = f"for later requests, enter what deletions need by the guide of {name}"
    return f"{name} takes no delete message with these settings, so {by_hand.format(name)}; {later}"


def kind_problems(destination: Destination) -> Iterator[KindProblem]:
    """Yield everything that does not fit the kind."""
    kind = kind_of(destination.kind)
    if destination.kind != OWN and kind is None:
        yield "unknown_kind", "kind", _unknown_kind(destination.kind)
    elif (unfit := unfit_settings(destination)) is not None:
        yield "invalid_settings", "settings", unfit
    elif is_webhook(destination.kind):
        if destination.mapping is not None:
            text = "a webhook's body is fixed; take the mapping out, or choose the kind http"
            yield "invalid_mapping", "mapping", text
        if kind is not None and destination.kind != OWN:
            yield from _webhook_problems(destination, kind)
    elif kind is not None:
        if (missing := missing_extra(destination.kind)) is not None:
            yield "unknown_kind", "kind", missing
        yield from _settings_problems(destination)
        yield from _auth_problems(destination)
        if destination.delivery.fan_out != "any":
            yield "invalid_settings", "delivery.fanOut", "fanOut belongs to webhooks; take it out"
        if kind.manifest.sink is not None:
            if destination.mapping is not None:
                yield "invalid_mapping", "mapping", f"{kind.manifest.name} makes no requests; take the mapping out"
        else:
            yield from _mapping_problems(destination)


def _auth_problems(destination: Destination) -> Iterator[KindProblem]:
    try:
        auth = auth_of(destination)
    except ValueError as error:
        yield "invalid_settings", "settings.auth", str(error).partition(" - at ")[0]
        return
    if auth is None:
        return
    given: dict[str, str] = msgspec.to_builtins(auth)
    for name in _NEEDED_BY[auth.type]:
        if not given.get(name):
            yield "invalid_settings", f"settings.auth.{name}", f"{auth.type} needs {name}; add it"
    if auth.type == "oauth2" and auth.token_url and "{{" not in auth.token_url:
        try:
            parse_receiver_url(auth.token_url)
        except ValueError as error:
            yield "invalid_url", "settings.auth.tokenUrl", str(error)


def _unknown_kind(name: str) -> str:
    known = kinds()
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"installed are {', '.join(known)}"
    return f"there is no kind {name!r}; {hint}"


def _webhook_problems(destination: Destination, kind: Kind) -> Iterator[KindProblem]:
    prefixes, headers = kind.manifest.url_prefixes, {name.lower() for name in kind.manifest.headers}
    settings = destination.settings
    assert isinstance(settings, WebhookSettings)
    for index, webhook in enumerate(settings.webhooks):
        place = f"settings.webhooks[{index}]"
        if prefixes and not webhook.url.startswith(prefixes):
            yield "invalid_url", f"{place}.url", f"a URL of {kind.manifest.name} begins with {' or '.join(prefixes)}"
        for name in webhook.headers:
            if name.lower() in headers:
                text = f"header {name!r} is set by {kind.manifest.name}: leave it out"
                yield "invalid_headers", f"{place}.headers", text


def _settings_problems(destination: Destination) -> Iterator[KindProblem]:
    settings = destination.settings
    assert isinstance(settings, KindSettings)
    for path, text in settings_problems(destination.kind, settings):
        yield "invalid_settings", path, text
    for path, secret in secrets_in(destination.kind, settings):
        if is_reference(secret):
            try:
                check_secret(secret)
            except ValueError as error:
                yield "invalid_secret", path, str(error)


def _mapping_problems(destination: Destination) -> Iterator[KindProblem]:
    if not requests_of(destination):
        yield "invalid_mapping", "mapping", "write the requests that events become: mapping needs at least one"
    elif destination.mapping is not None:
        settings = _with_samples(destination)
        yield from request_problems(destination.mapping, "mapping", schema_of(destination.kind), settings)
    else:
        yield from _preset_problems(destination)


def _preset_problems(destination: Destination) -> Iterator[KindProblem]:
    """Yield why the kind's own requests cannot be made: with a sound kind only settings can be at fault."""
    settings = _with_samples(destination)
    for request in requests_of(destination):
        try:
            (compiled,) = Plan([request], settings).requests
            parse_receiver_url(compiled.sample_url)
        except MappingError as error:  # what is missing in the settings has been said
            if not any(True for _ in settings_problems(destination.kind, usual_settings(destination))):
                yield "invalid_settings", "settings", error.sentence
            return
        except ExpressionError as error:
            text = f"the request {request.name!r} of this kind has a mistake, {error}; tell those who made the kind"
            yield "unknown_kind", "kind", text
        except ValueError as error:
            yield "invalid_url", "settings", str(error)


def _with_samples(destination: Destination) -> KindSettings:
    """Return settings in which what is behind a reference, or masked, stands as a text that can be a part of a URL."""

    def sample(path: str, secret: str) -> str:
        return "https://example.com/secret" if is_reference(secret) and path.lower().endswith("url") else secret

    return with_usual(destination.kind, change_secrets(destination.kind, usual_settings(destination), sample))
