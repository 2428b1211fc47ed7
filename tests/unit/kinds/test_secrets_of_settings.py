"""Which settings are secrets: those that the schema marks, and of a kind that is gone every text."""

from __future__ import annotations

from hookline.kinds.settings import change_secrets, secrets_in

SETTINGS = {"apiKey": "k-1", "nested": {"tokens": ["a", "b"], "count": 3}, "region": "eu"}


def test_the_schema_marks_secrets() -> None:
    """In free-form parts too; what is not marked stays as it is."""
    settings = {"secrets": {"one": "x"}, "variables": {"region": "eu"}, "auth": {"type": "bearer", "token": "t"}}
    assert sorted(secrets_in("http", settings)) == [("settings.auth.token", "t"), ("settings.secrets.one", "x")]


def test_every_text_of_a_kind_that_is_gone_is_a_secret() -> None:
    """Without its package nobody knows which are, and a key must not be shown meanwhile."""
    masked = change_secrets("gone", SETTINGS, lambda path, secret: "…")
    assert masked == {"apiKey": "…", "nested": {"tokens": ["…", "…"], "count": 3}, "region": "…"}
