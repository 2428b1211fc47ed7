"""``hookline pause``, ``disable``, ``resume``, ``try`` and ``secrets``: what an operator does with a destination."""

from __future__ import annotations

from typing import Literal

from hookline.cli.app import DELIVERY, HERE, USAGE, Json, app
from hookline.cli.failure import CommandFailed
from hookline.cli.target import Target


@app.command(group=DELIVERY)
def pause(destination: str, /, *, reason: str = "", as_json: Json = False, server: Target = HERE) -> int:
    """Park a destination's events until it is resumed; nothing is lost.

    Parameters
    ----------
    destination
        Id of the destination.
    reason
        Shown to whoever wonders.
    as_json
        Print how the destination stands as JSON.
    """
    from hookline.cli.pausing import pause_destination

    return pause_destination(server.admin(), destination, reason, as_json)


@app.command(group=DELIVERY)
def disable(
    destination: str,
    /,
    *,
    waiting: Literal["drain", "discard"] | None = None,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Disable a destination; when events wait for it, you say what becomes of them.

    Parameters
    ----------
    destination
        Id of the destination.
    waiting
        drain still sends what was accepted before, discard does not.
    as_json
        Print how the destination stands as JSON.
    """
    from hookline.cli.pausing import disable_destination

    return disable_destination(server.admin(), destination, waiting, as_json)


@app.command(group=DELIVERY)
def resume(destination: str, /, *, rate: float | None = None, as_json: Json = False, server: Target = HERE) -> int:
    """Send what a paused destination has missed, and what comes from now on.

    Parameters
    ----------
    destination
        Id of the destination.
    rate
        Events per second while it catches up (default: as many as the receiver takes).
    as_json
        Print how the destination stands as JSON.
    """
    from hookline.cli.pausing import resume_destination

    return resume_destination(server.admin(), destination, rate, as_json)


@app.command(name="try", group=DELIVERY)
def try_destination(destination: str, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Try what waits for a destination at once, whatever its breaker, its retries or Retry-After say.

    Parameters
    ----------
    destination
        Id of the destination.
    as_json
        Print the answer as JSON.
    """
    from hookline.cli.pausing import try_destination

    return try_destination(server.admin(), destination, as_json)


@app.command(group=DELIVERY)
def secrets(
    action: Literal["rotate", "end", "remove-old"],
    destination: str,
    /,
    *,
    overlap: str | None = None,
    secret: str | None = None,
    setting: Literal["sharedSecret", "standardWebhooks"] | None = None,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Rotate the secret a destination signs with, end the overlap in which the old one is good too, or remove old ones.

    Parameters
    ----------
    action
        rotate, end or remove-old: take secrets that are not in force out of the history now, not after 30 days.
    destination
        Id of the destination.
    overlap
        How long requests carry the signatures of both secrets (rotate; default: 24h).
    secret
        The new secret or a reference to it (rotate; default: one is made and shown once).
    setting
        Which secret, where the destination has two.
    as_json
        Print the answer as JSON.
    """
    from hookline.cli.secret_rotation import end_overlap, remove_old_secrets, rotate_secret

    if action == "rotate":
        return rotate_secret(
            server.admin(), destination, overlap=overlap or "24h", secret=secret, setting=setting, as_json=as_json
        )
    if overlap is not None or secret is not None:
        raise CommandFailed(f"secrets {action} takes neither --overlap nor --secret", exit_code=USAGE)
    if action == "remove-old":
        return remove_old_secrets(server.admin(), destination, as_json)
    return end_overlap(server.admin(), destination, setting=setting, as_json=as_json)
