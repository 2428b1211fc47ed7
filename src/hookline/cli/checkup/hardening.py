"""What makes an installation harder to attack: who can reach it, whose word it takes, and who could read its secrets.

Each check has a row in the list of docs/threat-model.md.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from shlex import quote
from urllib.parse import parse_qs, urlsplit

from hookline.cli.checkup.configured import read_connections
from hookline.cli.checkup.here import Finding, Here, limits_of
from hookline.connections.model import Destination
from hookline.connections.rotation import SECRET_SETTINGS, secret_of
from hookline.connections.secrets import is_reference, is_secret_header, stands_for_stored
from hookline.settings import parse_listen

WIDEST_PREFIX = {4: 8, 6: 32}
"""Bits of a network that one organisation may own; a wider one holds strangers."""
METADATA = ip_address("169.254.169.254")
"""Where clouds tell every machine its own credentials."""
SECRET_CHARACTERS_GOOD = 16
"""A shared secret shorter than this may be found by trying, with any one request and its signature."""
NAMED_MAX = 5
ENCRYPTED = ("require", "verify-ca", "verify-full")
"""Values of ``sslmode`` with which PostgreSQL's client never speaks in the clear."""


def check_listeners(here: Here) -> Iterator[Finding]:
    """Ports, brokers and the database that are reached over a network without TLS."""
    found = [*_open_ports(here), *_plain_connections(here)]
    yield from found
    if not found:
        yield Finding("listeners", "ok", "nothing is served or requested over a network without TLS")


def check_proxies(here: Here) -> Iterator[Finding]:
    """Proxies whose word on the caller's address is taken: only networks of one's own."""
    wide = _too_wide(here.settings.collect.trusted_proxies)
    for network in wide:
        message = f"collect.trusted_proxies trusts {network}: strangers can claim any address"
        yield Finding("proxies", "fail", message, "Name only the addresses of your proxies.")
    if not wide:
        yield Finding("proxies", "ok", f"{len(here.settings.collect.trusted_proxies) or 'no'} trusted networks")


def check_networks(here: Here) -> Iterator[Finding]:
    """Networks inside that destinations may lead to."""
    allowed = here.settings.deliver.allow_networks
    found: list[Finding] = []
    for network in map(ip_network, allowed):
        if network.prefixlen == 0 or METADATA in network:
            message = f"deliver.allow_networks lets every editor send to {network}, including the cloud's metadata"
            found.append(Finding("networks", "fail", message, "Name only the networks of your receivers."))
        elif network.is_loopback or str(network) in _too_wide((str(network),)):
            message = f"deliver.allow_networks lets every editor send to {network}: also to this machine's own services"
            found.append(Finding("networks", "warn", message, "Name only the addresses of your receivers."))
    yield from found
    if not found:
        yield Finding("networks", "ok", f"{len(allowed) or 'no'} networks inside are allowed as receivers")


def check_secrets(here: Here) -> Iterator[Finding]:
    """Look where secrets come from, who could read them there, and which are short enough to be found by trying."""
    found = [*_exposed_token(here), *_exposed_connections(here)]
    short = _short_secrets(here)
    if short:
        named = ", ".join(short[:NAMED_MAX]) + (f" and {len(short) - NAMED_MAX} more" if len(short) > NAMED_MAX else "")
        message = f"secrets shorter than {SECRET_CHARACTERS_GOOD} characters can be guessed: {named}"
        found.append(Finding("secrets", "warn", message, "hookline secrets rotate DESTINATION makes a long one."))
    yield from found
    if not found:
        yield Finding("secrets", "ok", "none is short, and the admin token is in no flag and no environment")


def check_core_dumps(here: Here) -> Iterator[Finding]:
    """Look whether the kernel would write an image of a crashed role's memory."""
    dumping = [process for process in here.processes() if _dumps_core(process)]
    if dumping:
        message = f"a crash of process {dumping[0]} would leave an image of its memory, secrets and events included"
        yield Finding("core_dumps", "fail", message, "Restart it with hookline up, which turns them off.")
    else:
        yield Finding("core_dumps", "ok", "off" if here.runs else "off in every role that is started")


def check_user(here: Here) -> Iterator[Finding]:
    """Look whether it runs as root, and the data folder is the user's who runs it."""
    running = {user for each in here.processes() if (user := _owner(Path(f"/proc/{each}"))) is not None}
    folder = _owner(here.settings.data_path)
    if 0 in running or (not running and folder == 0):
        next_step = "Give it a user of its own: deploy/systemd/hookline.service, or USER in a container."
        yield Finding("user", "warn", "Hookline runs as root, which it never needs", next_step)
    elif running and folder is not None and running != {folder}:
        message = f"{here.settings.data_path} belongs to user {folder}, and Hookline runs as {min(running)}"
        yield Finding("user", "fail", message, "Give the folder to the user that runs Hookline (chown -R).")
    else:
        yield Finding("user", "ok", "a user of its own, not root")


def _open_ports(here: Here) -> Iterator[Finding]:
    settings = here.settings
    for role, listen, url, carries in (
        ("control", settings.control.listen, settings.control.public_url, "passwords and tokens"),
        ("collect", settings.collect.listen, settings.collect.public_url, "write keys and events"),
    ):
        if not _is_local(parse_listen(listen)[0]) and not (url or "").startswith("https://"):
            message = f"{role} listens on {listen} and no TLS is known: {carries} can be read on the way"
            next_step = (
                f"Listen on 127.0.0.1 behind a proxy with TLS, or set {role}.public_url to its https:// address."
            )
            yield Finding("listeners", "warn", message, next_step)


def _plain_connections(here: Here) -> Iterator[Finding]:
    database, journal = urlsplit(here.settings.database.url), here.settings.journal
    if database.scheme:
        # Where the URL names no host it is a socket of this machine.
        query = parse_qs(database.query)
        hosts = [*_hosts(database.netloc), *(host for each in query.get("host", ()) for host in each.split(","))]
        is_far = any(not _is_local(host) for host in hosts if host and not host.startswith("/"))
        if is_far and query.get("sslmode", ["prefer"])[-1] not in ENCRYPTED:
            next_step = "Add sslmode=verify-full (and sslrootcert) to database.url."
            yield Finding("listeners", "warn", "PostgreSQL may be used without TLS: events can be read", next_step)
    if journal.url != "local" and not journal.tls and not all(map(_is_local, _hosts(urlsplit(journal.url).netloc))):
        yield Finding("listeners", "warn", "brokers are used without TLS: events can be read", "Set journal.tls.")


def _hosts(netloc: str) -> list[str]:
    return [re.sub(r":\d*\Z", "", each).strip("[]") for each in netloc.rpartition("@")[2].split(",") if each]


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _too_wide(networks: tuple[str, ...]) -> list[str]:
    parsed = [ip_network(text) for text in networks]
    return [str(each) for each in parsed if each.prefixlen < WIDEST_PREFIX[each.version]]


def _exposed_token(here: Here) -> Iterator[Finding]:
    source = next((each.source for each in here.origins if each.key == "control.admin_token"), "default")
    next_step = "Leave it out: Hookline generates one and keeps it in admin-token (0600). Programs use hookline tokens."
    if source.startswith("flag"):
        message = (
            "control.admin_token is given as a flag: every user of this machine can read it in the list of processes"
        )
        yield Finding("secrets", "fail", message, next_step)
    elif source.startswith("env"):
        message = "control.admin_token is in the environment, which crash reports and other programs of its user see"
        yield Finding("secrets", "warn", message, next_step)


def _exposed_connections(here: Here) -> Iterator[Finding]:
    from hookline.connections import file  # here: YAML is wanted rarely

    path = here.connections_file()
    if path is None or not stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        return
    text, _ = file.load(path)
    if any(_written_out(each) for _, each in file.read(text)[0].destinations):
        message = f"{path} holds a secret and can be read by others (mode {stat.S_IMODE(path.stat().st_mode):o})"
        next_step = (
            f"chmod 600 {quote(str(path))}, or write keep, env:HOOKLINE_SECRET_… or file:NAME in place of the secret."
        )
        yield Finding("secrets", "warn", message, next_step)


def _written_out(destination: Destination) -> bool:
    settings = destination.settings
    values = [secret for each in SECRET_SETTINGS if (secret := secret_of(settings, each)) is not None]
    values += [value for each in settings.webhooks for name, value in each.headers.items() if is_secret_header(name)]
    return any(not (is_reference(value) or stands_for_stored(value)) for value in values)


def _short_secrets(here: Here) -> list[str]:
    destinations = read_connections(here).destinations
    named = [f"{each.id}'s {setting}" for each in destinations for setting in _short(each)]
    notices = here.settings.notices.secret
    if notices and not is_reference(notices) and len(notices) < SECRET_CHARACTERS_GOOD:
        named.append("notices.secret")
    return named


def _short(destination: Destination) -> Iterator[str]:
    for setting in SECRET_SETTINGS:
        secret = secret_of(destination.settings, setting)
        if secret is not None and not is_reference(secret) and len(secret) < SECRET_CHARACTERS_GOOD:
            yield setting


def _dumps_core(process: int) -> bool:
    limits = limits_of(process, "core file size")
    return limits is not None and limits[0] > 1


def _owner(path: Path) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None
