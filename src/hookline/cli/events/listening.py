"""The run of ``hookline listen``: receiver, destination, output, and what to say when nothing can arrive."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from hookline.cli.events.arrivals import printer
from hookline.cli.events.listen import HOST, Receiver, connected, end_on_signals, make_secret, wait_for_end
from hookline.cli.events.verifier import Verifier
from hookline.cli.failure import CommandFailed
from hookline.cli.target import Target
from hookline.events.standard_signature import new_standard_secret
from hookline.settings import Settings


def listen_until_told(
    server: Target,
    *,
    port: int,
    secrets: Sequence[str],
    standard_webhooks: bool,
    status: int,
    source: str | None,
    as_json: bool,
) -> int:
    """Receive and print until Ctrl-C or SIGTERM."""
    ended = end_on_signals()
    verifier = _verifier(secrets, standard_webhooks)
    admin = server.admin()
    receiver = Receiver(port, verifier, status, printer(as_json))
    receiver.start()
    try:
        with connected(admin, receiver, verifier, source) as destination:
            known = ", ".join([*verifier.shared, *verifier.standard])
            _say(f"listening on {receiver.url} as destination {destination} (secret {known}); Ctrl-C ends it")
            if not loopback_allowed(server.settings()):
                _say(
                    "receivers on this machine are refused by the server's settings: set deliver.allow_networks "
                    "to 127.0.0.0/8 (or start it with --quickstart), or nothing will arrive here"
                )
            wait_for_end(ended)
    finally:
        receiver.stop()
    return 0


def _verifier(given: Sequence[str], standard_webhooks: bool) -> Verifier:
    secrets = list(given) or [make_secret()]
    try:
        verifier = Verifier(secrets)
        if standard_webhooks and not verifier.standard:
            verifier = Verifier([*secrets, new_standard_secret()])
    except ValueError as error:
        raise CommandFailed(f"--secret: {error}") from None
    return verifier


def loopback_allowed(settings: Settings) -> bool:
    """Whether the server may send to the receiver's address."""
    address = ip_address(HOST)
    return any(address in ip_network(network) for network in settings.deliver.allow_networks)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
