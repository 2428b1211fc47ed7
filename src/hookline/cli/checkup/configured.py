"""What people configured: settings, connections and destinations, and whether it is in force and of use."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from hookline.api.auth.admin_token import TOKEN_CHARACTERS_GOOD
from hookline.cli.admin_api import AdminApi, CommandFailed
from hookline.cli.checkup.here import Finding, Here, Status
from hookline.connections.model import Destination, Snapshot
from hookline.connections.receiver_url import parse_receiver_url
from hookline.connections.rotation import SECRET_SETTINGS, running_rotations, secret_of
from hookline.connections.secrets import SecretMissing, is_reference, resolve, resolve_all
from hookline.connections.state import Feed
from hookline.database.location import location_of
from hookline.database.sqlite import DatabaseNotMade
from hookline.deliver.send.client_certificate import fault_and_details, fault_of
from hookline.deliver.send.proxy import parse_proxy
from hookline.deliver.send.resolver import Guard
from hookline.events.timestamps import iso
from hookline.features.connections.cli.file import APPLY_SECONDS
from hookline.features.notices.conditions.destinations import AHEAD
from hookline.features.notices.conditions.finding import BREAKER_OPEN, NEXT_PROBE
from hookline.features.notices.webhooks import InvalidNoticeWebhooks, checked
from hookline.features.notifications.mail import parse_mail_server
from hookline.kinds.catalog import missing_extra
from hookline.outcomes.reader import DeliverReader

PAUSED_BY: dict[str, Status] = {"person": "warn", "hookline": "fail"}
"""Hookline pauses only what cannot go on: every URL answered 410."""
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""What other programs take their way out from."""
PROXY_SECONDS_MAX = 3.0
SHOWN_MAX = 10
"""Of one kind of finding; the rest is counted."""


def check_settings(here: Here) -> Iterator[Finding]:
    """Settings that contradict each other or the running server."""
    found = list(_wrong_settings(here))
    yield from found
    if not found:
        yield Finding("settings", "ok", "all can be used")


def _wrong_settings(here: Here) -> Iterator[Finding]:
    if here.differs:
        message = f"the server runs with other values of {', '.join(here.differs)} than are set here"
        yield Finding("settings", "warn", message, "Restart it to use the new ones.")
    unused = [name for name in PROXY_VARIABLES if os.environ.get(name) or os.environ.get(name.lower())]
    if unused:
        message = (
            f"{', '.join(unused)} in the environment: not used; deliveries and notices leave only through deliver.proxy"
        )
        yield Finding(
            "settings", "warn", message, "Set deliver.proxy if they should use a proxy, and remove the variables."
        )
    yield from _wrong_proxy(here)
    token, notices = here.settings.control.admin_token, here.settings.notices
    if token is not None and len(token) < TOKEN_CHARACTERS_GOOD:
        next_step = f"Use {TOKEN_CHARACTERS_GOOD} characters or more."
        yield Finding("settings", "warn", "control.admin_token is short enough to be guessed", next_step)
    try:
        checked(here.settings)
    except InvalidNoticeWebhooks as error:
        yield Finding("settings", "fail", str(error), "Correct it; Hookline does not start like this.")
    if notices.webhooks and not notices.secret:
        next_step = "Set notices.secret, so that its receiver can verify the sender."
        yield Finding("settings", "warn", "notices are sent unsigned", next_step)
    elif notices.secret and _is_visible(here, notices.secret):
        try:
            resolve(notices.secret, here.settings)
        except SecretMissing as error:
            yield Finding("settings", "fail", f"notices.secret: {error}", "Until then no notice is sent.")
    mail = here.settings.smtp.url
    if mail is not None and _is_visible(here, mail):
        try:
            parse_mail_server(resolve(mail, here.settings))
        except (SecretMissing, ValueError) as error:
            yield Finding("settings", "fail", f"smtp.url: {error}", "Until then no e-mail is sent.")


def _wrong_proxy(here: Here) -> Iterator[Finding]:
    setting = here.settings.deliver.proxy
    if setting is None or not _is_visible(here, setting):
        return
    try:
        proxy = parse_proxy(resolve(setting, here.settings))
        socket.create_connection((proxy.host, proxy.port), PROXY_SECONDS_MAX).close()
    except (SecretMissing, ValueError) as error:
        yield Finding("settings", "fail", f"deliver.proxy: {error}", "Until then nothing is delivered.")
    except OSError as error:
        message = f"deliver.proxy: {proxy.name} accepts no connections ({error.strerror or error})"
        yield Finding("settings", "fail", message, "Until it does, nothing is delivered: nothing bypasses it.")


def check_connections(here: Here) -> Iterator[Finding]:
    """The connections file, and whether the server has what it says."""
    from hookline.connections.file import check  # here: YAML is wanted rarely

    file = here.connections_file()
    if file is None:
        yield Finding("connections", "ok", "no connections file is used here")
        return
    problems = check(file)
    for problem in problems[:SHOWN_MAX]:
        yield Finding(
            "connections", "fail", f"{file}: {problem}", f"hookline check {quote(str(file))} shows all of them."
        )
    if problems:
        return
    control = here.reports.get("control")
    if control is None or not control.fresh:
        yield Finding("connections", "ok", f"{file} is valid; it is applied at the next start")
        return
    try:
        changes = _changes(here.server.admin(), file)
    except CommandFailed as failure:
        yield Finding("connections", "warn", f"{file} is valid; cannot check whether it is applied", str(failure))
        return
    if changes:
        name = quote(str(file))
        message = f"{file} is valid and not applied: {changes} object{'s' if changes > 1 else ''} would change"
        yield Finding("connections", "warn", message, f"hookline diff {name}, then hookline apply {name}")
    else:
        yield Finding("connections", "ok", f"{file} is valid and applied")


def read_connections(here: Here) -> Snapshot:
    """Return the connections in force, none before control has made its database; raise DatabaseAway."""
    feed = Feed(location_of(here.settings, "control"))
    try:
        return feed.load()
    except DatabaseNotMade:
        return Snapshot(version=0)
    finally:
        feed.close()


def check_destinations(here: Here) -> Iterator[Finding]:
    """Enabled destinations that are paused, whose breaker is open or whose settings cannot be used."""
    snapshot = read_connections(here)
    yield from _odd_names(snapshot)
    enabled = [each for each in snapshot.destinations if each.id in snapshot.lanes]
    lanes = {snapshot.lanes[each.id].number: each.id for each in enabled}
    failing = _open_breakers(here, lanes) - {id for id, lane in snapshot.lanes.items() if lane.paused is not None}
    now_ms = time.time_ns() // 1_000_000
    unusable = [sentence for each in enabled for sentence in _unusable(here, each, now_ms)]
    yield from _bounded(unusable, "Correct it with hookline apply, or through the admin API.")
    yield from _bounded(
        [sentence for each in enabled for sentence in _expiring(here, each)],
        "Have it renewed, and replace its file.",
        "warn",
    )
    probes = deliver.by_label(NEXT_PROBE) if (deliver := here.reports.get("deliver")) and deliver.fresh else {}
    known = [f"{id}: its breaker is open; events are queued{_asked_at(probes.get(id))}" for id in sorted(failing)]
    yield from _bounded(
        known, "hookline attempts ID shows why; if it has none, hookline test ID does. Repair its receiver."
    )
    held = [(each.id, pause) for each in enabled if (pause := snapshot.lanes[each.id].paused) is not None]
    for by, status in PAUSED_BY.items():
        paused = [f"{id}: paused, {pause.reason or 'its events are queued'}" for id, pause in held if pause.by == by]
        yield from _bounded(paused, "hookline resume ID, when its receiver can take events again.", status)
    if not (unusable or failing or held):
        yield Finding("destinations", "ok", f"{len(enabled)} enabled, no breaker open")


def _asked_at(seconds: float | None) -> str:
    return "" if seconds is None else f"; its receiver is probed again at {iso(int(seconds * 1000))}"


def _odd_names(snapshot: Snapshot) -> Iterator[Finding]:
    """Ids and write keys that end in a line end, as older versions took them."""
    kinds = (snapshot.sources, snapshot.destinations, snapshot.audiences, snapshot.computed_traits)
    ids = [each.id for objects in kinds for each in objects]
    named = [f"the id {id!r}" for id in ids if id.endswith("\n")]
    named += [f"the write key {key!r}" for each in snapshot.sources for key in each.write_keys if key.endswith("\n")]
    for sentence in named[:SHOWN_MAX]:
        next_step = "It still works. Create another one in its place, then delete this one."
        yield Finding(
            "connections", "warn", f"{sentence} ends with a line break, which is no longer allowed", next_step
        )


def _bounded(sentences: Sequence[str], next_step: str, status: Status = "fail") -> Iterator[Finding]:
    for sentence in sentences[:SHOWN_MAX]:
        yield Finding("destinations", status, sentence, next_step)
    if len(sentences) > SHOWN_MAX:
        yield Finding("destinations", status, f"{len(sentences) - SHOWN_MAX} more like these", next_step)


def _open_breakers(here: Here, lanes: dict[int, str]) -> set[str]:
    deliver = here.reports.get("deliver")
    if deliver is not None and deliver.fresh:
        return {id for id, value in deliver.by_label(BREAKER_OPEN).items() if value} & set(lanes.values())
    with closing(DeliverReader(location_of(here.settings, "deliver"))) as reader:
        return {lanes[row.lane] for row in reader.lanes_in("open") if row.lane in lanes}


def _unusable(here: Here, destination: Destination, now_ms: int) -> Iterator[str]:
    secrets = [value for webhook in destination.settings.webhooks for value in webhook.headers.values()]
    secrets += [secret for setting in SECRET_SETTINGS if (secret := secret_of(destination.settings, setting))]
    secrets += [rotation.previous or "" for rotation in running_rotations(destination, now_ms)]
    if all(_is_visible(here, secret) for secret in secrets):
        try:
            resolve_all(destination, here.settings, now_ms)
        except SecretMissing as error:
            yield f"{destination.id}: {error}"
    if (missing := missing_extra(destination.kind)) is not None:
        yield f"{destination.id}: {missing}"
    pair = destination.settings.certificate_pair
    if pair is not None and all(_is_visible(here, each) for each in pair):
        fault = fault_of(pair, here.settings)
        if fault is not None:
            yield f"{destination.id}: its client certificate cannot be used: {fault}"
    guard = Guard(here.settings.deliver.allow_networks)
    for webhook in destination.settings.webhooks:
        url = parse_receiver_url(webhook.url)
        refusal = guard.refusal(url.host) if url.is_ip else guard.name_refusal(url.host)
        if refusal is not None:
            yield f"{destination.id}: {refusal}"


def _expiring(here: Here, destination: Destination) -> Iterator[str]:
    pair = destination.settings.certificate_pair
    if pair is None or not all(_is_visible(here, each) for each in pair):
        return
    fault, details = fault_and_details(pair, here.settings)
    if fault is None and details is not None and details.expires_at <= datetime.now(UTC) + AHEAD:
        yield f"{destination.id}: its client certificate expires at {details.expires_at:%Y-%m-%d %H:%M} UTC"


def _is_visible(here: Here, secret: str) -> bool:
    """Return whether this shell sees the secret as the server does: the variables of a running server are its own."""
    return not (here.runs and is_reference(secret) and secret.startswith("env:"))


def _changes(admin: AdminApi, file: Path) -> int:
    document = file.read_text(encoding="utf-8-sig")
    answer = admin.request("POST", "/connections/apply", {"document": document, "dryRun": True}, APPLY_SECONDS)
    return sum(change["action"] in ("create", "change", "delete") for change in answer["changes"])
