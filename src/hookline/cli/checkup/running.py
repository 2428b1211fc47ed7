"""Whether the service runs: its roles, its ports, and what it has to say about itself."""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from hookline.cli.admin_api import url_of
from hookline.cli.checkup.here import Finding, Here, Status
from hookline.database.location import location_of
from hookline.database.read_only import ReadOnly
from hookline.features.fleet.service import STANDING_BY, WORKING
from hookline.features.notices.log import WORST_FIRST
from hookline.listening import all_bound
from hookline.roles import wanted
from hookline.settings import parse_listen

ANSWER_SECONDS_MAX = 3.0
ANSWER_BYTES_MAX = 64 * 1024
NOTICES_SHOWN_MAX = 10
STATUSES: dict[str, Status] = {"critical": "fail", "warning": "warn", "info": "ok"}


def check_roles(here: Here) -> Iterator[Finding]:
    """Each role, from its own report of the last seconds."""
    folder = here.settings.data_path
    if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
        message = "this user cannot see whether Hookline runs"
        yield Finding("roles", "warn", message, "Run this as the user that runs Hookline.")
        return
    roles = wanted(str(folder))
    away = [role for role in roles if role not in here.reports or not here.reports[role].fresh]
    if not here.runs and here.launch is None:
        yield Finding("roles", "warn", "Hookline does not run in this folder", "Start it: hookline up")
    elif away:
        message = f"{', '.join(away)} {'does' if len(away) == 1 else 'do'} not run (no report for more than 5 s)"
        yield Finding("roles", "fail", message, "Look at its last log lines; hookline up starts it again by itself.")
    elif hindered := {role: state for role, state in _whole(here).items() if state not in (WORKING, STANDING_BY)}:
        message = f"not every role works: {', '.join(f'{role} ({state})' for role, state in hindered.items())}"
        yield Finding("roles", "fail", message, "Its last log lines say more; it continues by itself once it can.")
    else:
        yield Finding("roles", "ok", f"{', '.join(roles)} run")


def check_ports(here: Here) -> Iterator[Finding]:
    """Look whether the roles that run answer, and whether those that do not could listen."""
    for role, listen in (("collect", here.settings.collect.listen), ("control", here.settings.control.listen)):
        report = here.reports.get(role)
        yield _answers(role, listen) if report is not None and report.fresh else _is_free(role, listen)


def check_notices(here: Here) -> Iterator[Finding]:
    """The notices that are open."""
    database = ReadOnly(location_of(here.settings, "control"))
    try:
        connection = database.open()
        if connection is None:
            return
        query = "SELECT severity, message, next_step FROM notices WHERE resolved_at IS NULL ORDER BY"
        rows = connection.execute(f"{query} {WORST_FIRST}, id").fetchall()
    finally:
        database.close()
    as_of = "" if here.runs else " (as of when it last ran)"
    for severity, message, next_step in rows[:NOTICES_SHOWN_MAX]:
        yield Finding("notices", STATUSES[severity], message + as_of, next_step)
    if len(rows) > NOTICES_SHOWN_MAX:
        more = f"{len(rows) - NOTICES_SHOWN_MAX} more notices are open{as_of}"
        yield Finding(
            "notices", STATUSES[rows[NOTICES_SHOWN_MAX][0]], more, "hookline notices list --state open lists them."
        )
    if not rows:
        yield Finding("notices", "ok", f"none is open{as_of}")


def _whole(here: Here) -> dict[str, str]:
    """Return how control says each role is; empty where it does not say."""
    try:
        status, answer = _ask(url_of(here.settings.control.listen), "/readyz?all")
        found: dict[str, dict[str, str]] = msgspec.json.decode(answer) if status in (200, 503) else {}
    except (OSError, http.client.HTTPException, msgspec.DecodeError):
        return {}
    return dict(found.get("roles", {}))


def _ask(url: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS_MAX)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()


def _answers(role: str, listen: str) -> Finding:
    url = url_of(listen)
    try:
        status, _ = _ask(url, "/readyz")
    except (OSError, http.client.HTTPException) as error:
        next_step = f"Is {listen} the address it listens on, and does a firewall let this machine reach it?"
        return Finding("ports", "fail", f"{role} does not answer at {url} ({error})", next_step)
    if status == 200:
        return Finding("ports", "ok", f"{role} answers at {url}")
    next_step = "It is starting, or there is no room to store events: see its last log lines."
    return Finding("ports", "fail", f"{role} answers at {url} that it is not ready ({status})", next_step)


def _is_free(role: str, listen: str) -> Finding:
    host, port = parse_listen(listen)
    try:
        for each in all_bound(host, port):
            each.close()
    except OSError as error:
        next_step = f"Stop what uses it, or set {role}.listen to another address."
        return Finding("ports", "fail", f"{role} could not listen on {listen} ({error.strerror})", next_step)
    return Finding("ports", "ok", f"{listen} is free for {role}")
