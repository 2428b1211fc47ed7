"""How a server is connected to: what the URL says, and bounds on waiting for what it does not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hookline.database.postgres.errors import translating

CONNECT_SECONDS_MAX = 5
SILENCE_MS_MAX = 10_000
"""A server that does not acknowledge what was sent for so long is taken for gone."""


def conninfo(url: str, application: str, options: Sequence[str] = ()) -> str:
    """What the client library is told; ``options`` (``-c name=value``) come after those of the URL.

    Raise OperationalError for a URL that cannot be read.
    """
    with translating():
        given = conninfo_to_dict(url)
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS_MAX,
        "tcp_user_timeout": SILENCE_MS_MAX,
        "keepalives_idle": SILENCE_MS_MAX // 1000,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "application_name": application,
    }
    all_options = " ".join([str(given.get("options", "")), *options]).strip()
    return make_conninfo(**{**defaults, **given, "options": all_options})


def without_password(url: str) -> str:
    """Host, port and name of the database, for people."""
    given = conninfo_to_dict(url)
    return f"{given.get('dbname', '')} at {given.get('host', 'this machine')}:{given.get('port', '5432')}"
