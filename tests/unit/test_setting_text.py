"""Settings as people see them: no password of a URL, wherever it stands in it."""

from __future__ import annotations

import pytest

from hookline.setting_text import is_secret, shown, without_secrets
from hookline.settings import SettingsError, load


@pytest.mark.parametrize(
    ("url", "seen", "stripped"),
    [
        ("postgresql://u:hush@db:5432/x", "postgresql://u:…@db:5432/x", "postgresql://u@db:5432/x"),
        ("postgresql://u@db/x?password=hush", "postgresql://u@db/x?password=…", "postgresql://u@db/x"),
        (
            "postgresql:///x?sslmode=require&p%61ssword=hush&sslpassword=hush&host=db",
            "postgresql:///x?sslmode=require&p%61ssword=…&sslpassword=…&host=db",
            "postgresql:///x?sslmode=require&host=db",
        ),
        ("postgresql://:hush@/x?scram_client_key=hush", "postgresql://:…@/x?scram_client_key=…", "postgresql://@/x"),
        ("postgresql://u:hu?sh@db/x", "postgresql://u:…@db/x", "postgresql://u@db/x"),
        ("postgresql://u:hu/sh@db/x", "postgresql://u:…@db/x", "postgresql://u@db/x"),
        ("postgresql://u:hu@sh@db,db2/x", "postgresql://u:…@db,db2/x", "postgresql://u@db,db2/x"),
    ],
)
def test_passwords_are_found(url: str, seen: str, stripped: str) -> None:
    """As the user's, in the query under any of its names, percent-encoded names and half-encoded passwords included."""
    assert "hush" not in (seen + stripped)
    assert (shown("database.url", url), without_secrets(url)) == (seen, stripped)
    assert is_secret("database.url", url)


@pytest.mark.parametrize("password", ["hu@sh", "hu/sh@", "@"])
def test_a_password_that_would_be_cut_in_two_is_refused(password: str) -> None:
    """It is to be percent-encoded, or its end would count as a host and stand in messages; none is in this one."""
    with pytest.raises(SettingsError, match="percent-encoding") as refused:
        load(environment={"HOOKLINE_DATABASE_URL": f"postgresql://u:{password}@db/x"})
    assert "sh" not in str(refused.value).partition(":")[2]


@pytest.mark.parametrize(
    "url",
    [
        "local",
        "postgresql://u@db:5432/x?sslmode=verify-full&passfile=/etc/pgpass&sslkey=/etc/key.pem",
        "postgresql://db,db2:5433/x?target_session_attrs=read-write",
        "postgresql:///x?user=me@corp",
    ],
)
def test_what_is_no_secret_stays(url: str) -> None:
    """Names of files, hosts and options are shown as they are."""
    assert (shown("database.url", url), is_secret("database.url", url)) == (url, False)
