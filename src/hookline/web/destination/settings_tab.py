"""The settings of a destination, secrets masked, as its form shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.connections.model import WEBHOOKS_MAX, Destination, Rotation, SecretSetting
from hookline.connections.redaction import redact
from hookline.connections.rotation import secret_of
from hookline.control.objects import ShownCertificate, shown_certificate
from hookline.control.services import Services
from hookline.web.connection_views import SIGNATURES
from hookline.web.verification import Verification, verifications_of

SOURCES_SHOWN = 200
FAN_OUTS = (
    ("any", "Delivered when any URL accepts"),
    ("all", "Delivered when all URLs accept"),
    ("fallback", "Try the next URL only when one fails"),
)
ORDERS = (("none", "As fast as possible"), ("user", "In order for each user"))


class Url(NamedTuple):
    """One receiver URL with its headers as lines."""

    url: str
    headers: str


class Secret(NamedTuple):
    """One way to sign: ``shown`` is the masked secret, empty when there is none."""

    setting: SecretSetting
    title: str
    shown: str
    rotation: Rotation | None


class SettingsTab(NamedTuple):
    """The whole form; ``urls`` are as many as there may be, the last ones empty."""

    destination: Destination
    urls: Sequence[Url]
    sources: Sequence[tuple[str, str, bool]]
    fan_outs: Sequence[tuple[str, str]]
    orders: Sequence[tuple[str, str]]
    secrets: Sequence[Secret]
    verifications: Sequence[Verification]
    certificate: ShownCertificate | None


def settings_tab(services: Services, destination: Destination) -> SettingsTab:
    """Return the form of a destination."""
    shown = redact(destination, now_ms=services.store.now_ms())
    rotations = {rotation.setting: rotation for rotation in shown.rotations}
    urls = [Url(each.url, _lines(each.headers)) for each in shown.settings.webhooks]
    return SettingsTab(
        destination=shown,
        urls=[*urls, *[Url("", "")] * (WEBHOOKS_MAX - len(urls))],
        sources=source_choices(services, destination.sources),
        fan_outs=FAN_OUTS,
        orders=ORDERS,
        secrets=[
            Secret(setting, title, secret_of(shown.settings, setting) or "", rotations.get(setting))
            for setting, title in SIGNATURES.items()
        ],
        verifications=verifications_of(destination.settings),
        certificate=shown_certificate(services, destination),
    )


def source_choices(services: Services, connected: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Id, name and whether it is connected, of the connected sources and of others as far as there is room."""
    sources = [stored.object for stored in services.store.sources()]
    ordered = sorted(sources, key=lambda source: (source.id not in connected, source.id))
    room = max(SOURCES_SHOWN, len(connected))
    return [(source.id, source.name, source.id in connected) for source in ordered[:room]]


def _lines(headers: dict[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers.items())
