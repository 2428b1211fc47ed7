"""How a server is connected to: what the URL says, and bounds on waiting for what it does not say.

Nothing of a session is asked for here (``options``): a pooler before the server would refuse it, and a URL of several
hosts would take what only reads for a standby. It is set once connected (``patience``).
"""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hookline.database.postgres.errors import translating

CONNECT_SECONDS_MAX = 5
SILENCE_MS_MAX = 10_000
"""A server that does not acknowledge what was sent for so long is taken for gone."""


def conninfo(url: str, application: str) -> str:
    """Return what the client library is told; raise OperationalError for a URL that cannot be read."""
    with translating():
        given = conninfo_to_dict(url)
    several = "," in f"{given.get('host', '')}{given.get('hostaddr', '')}"
    if several and given.get("target_session_attrs", "any") == "any":
        given["target_session_attrs"] = "primary"  # any would stay with a standby that answers first
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS_MAX,
        "tcp_user_timeout": SILENCE_MS_MAX,
        "keepalives_idle": SILENCE_MS_MAX // 1000,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "application_name": application,
    }
    return make_conninfo(**{**defaults, **given, "client_encoding": "UTF8"})


def without_password(url: str) -> str:
    """Host, port and name of the database, for people."""
    given = conninfo_to_dict(url)
    return f"{given.get('dbname', '')} at {given.get('host', 'this machine')}:{given.get('port', '5432')}"
