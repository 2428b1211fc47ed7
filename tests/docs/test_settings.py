"""docs/reference/settings.md against the settings themselves."""

from __future__ import annotations

import os
from pathlib import Path

from hookline.settings import Settings, environment_name, keys, load, value_of
from tests.docs.pages import rows


def test_every_setting_is_documented_with_its_environment_name() -> None:
    """The table lists exactly the settings there are, in their order, each with its variable."""
    documented = [(row[0], row[1]) for row in rows("reference/settings.md")]
    assert documented == [(key, environment_name(key)) for key in keys()]


def test_documented_defaults_are_the_defaults() -> None:
    """Each default of the table, given as a value, leaves the settings as they are without it."""
    for key, _, default, _ in rows("reference/settings.md"):
        flags = {} if default == "none" else {key: default}
        settings, _origins = load(Path(os.devnull), environment={}, flags=flags)
        assert value_of(settings, key) == value_of(Settings(), key), key
