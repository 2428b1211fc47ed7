"""The app: makes the client of the process from the setting ``HOOKLINE``, and again when a test overrides it."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from hookline_client import module
from hookline_client.errors import CODES, InvalidOption

SETTING = "HOOKLINE"


class HooklineConfig(AppConfig):
    """Found by Django through ``INSTALLED_APPS``."""

    name = "hookline_client.frameworks.django"
    label = "hookline"
    verbose_name = "Hookline"

    def ready(self) -> None:
        """Make the client. ImproperlyConfigured when an option is wrong."""
        _make()
        checks.register(_check_key)
        setting_changed.connect(_changed, dispatch_uid=self.name)


def _make() -> None:
    options: Any = dict(getattr(settings, SETTING, {}))
    try:
        module.init(options.pop("write_key", None), options)
    except InvalidOption as error:
        raise ImproperlyConfigured(f"{SETTING}: {error}") from error


def _changed(*, setting: str, **_: object) -> None:
    if setting == SETTING:
        module.close()
        _make()


def _check_key(app_configs: object, **_: object) -> list[checks.CheckMessage]:
    client = module.client()
    if client is None or client.options.write_key or not client.options.enabled:
        return []
    return [checks.Warning(CODES["missing_write_key"], hint=f'{SETTING} = {{"write_key": "…"}}', id="hookline.W001")]
