"""``hookline pause``, ``disable``, ``resume``, ``try`` and ``secrets``: what an operator does with a destination."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, CommandFailed
from hookline.cli.app import DELIVERY, HERE, USAGE, Flag, app
from hookline.cli.confirm import confirm
from hookline.cli.target import Options

Setting = Literal["sharedSecret", "standardWebhooks"]


@app.command(group=DELIVERY)
def pause(destination: str, *, reason: str = "", options: Options = HERE) -> int:
    """Pause a destination. Its events are queued until you resume it; nothing is lost.

    Parameters
    ----------
    destination
        Id of the destination.
    reason
        Shown to teammates.
    """
    current = options.admin().request("POST", f"/destinations/{quote(destination, safe='')}/pause", {"reason": reason})
    return _print(current, f"hookline resume {destination}", options.as_json)


@app.command(group=DELIVERY)
def disable(
    destination: str,
    *,
    waiting: Literal["drain", "discard"] | None = None,
    yes: Flag = False,
    options: Options = HERE,
) -> int:
    """Disable a destination. If events are queued for it, choose whether they are still sent.

    Parameters
    ----------
    destination
        Id of the destination.
    waiting
        Queued events: drain still sends them, discard does not.
    yes
        Do not ask before events are discarded.
    """
    if waiting == "discard":
        confirm(f"Discard every event that waits for {destination}?", yes, "nothing was discarded")
    current = options.admin().request(
        "POST", f"/destinations/{quote(destination, safe='')}/disable", {"waiting": waiting}
    )
    if options.as_json:
        print(json.dumps(current))
    elif current["state"] == "draining":
        count = current["figures"]["queued"] + current["figures"]["retrying"]
        print(f"{destination} gets no new events; {count} from before are still sent")
    else:
        print(f"{destination} is disabled")
    return 0


@app.command(group=DELIVERY)
def resume(destination: str, *, rate: float | None = None, options: Options = HERE) -> int:
    """Resume a paused destination. Its queued events are sent, oldest first.

    Parameters
    ----------
    destination
        Id of the destination.
    rate
        Events per second while it catches up (default: as many as the receiver takes).
    """
    current = options.admin().request("POST", f"/destinations/{quote(destination, safe='')}/resume", {"rate": rate})
    return _print(current, f"hookline pause {destination}", options.as_json)


@app.command(name="try", group=DELIVERY)
def try_destination(destination: str, *, yes: Flag = False, options: Options = HERE) -> int:
    """Send the waiting events of a destination now, without waiting for the breaker, retries or Retry-After.

    Parameters
    ----------
    destination
        Id of the destination.
    yes
        Do not ask for confirmation.
    """
    confirm(f"Send the waiting events of {destination} now?", yes, "nothing was sent")
    return try_waiting(options.admin(), destination, options.as_json)


@app.command(group=DELIVERY)
def secrets(
    action: Literal["rotate", "end", "remove-old"],
    /,
    destination: str,
    *,
    overlap: str | None = None,
    secret: str | None = None,
    setting: Setting | None = None,
    yes: Flag = False,
    options: Options = HERE,
) -> int:
    """Rotate the signing secret of a destination, end the overlap with the old secret, or remove old secrets.

    Parameters
    ----------
    action
        rotate, end (end the overlap now) or remove-old (delete old secrets from the history now, not after 30 days).
    destination
        Id of the destination.
    overlap
        How long requests are signed with both secrets (rotate; default: 24h).
    secret
        The new secret, or a reference to it (rotate; by default one is generated and shown once).
    setting
        Which secret, if the destination has both kinds.
    yes
        Do not ask for confirmation.
    """
    if action != "rotate" and (overlap is not None or secret is not None):
        raise CommandFailed(f"secrets {action} takes neither --overlap nor --secret", exit_code=USAGE)
    both = " only, from now on" if overlap in ("0", "0s") else f", and with the old one too for {overlap or '24h'}"
    question = {
        "rotate": f"Sign requests to {destination} with a new secret{both}?",
        "end": f"Stop signing requests to {destination} with the old secret?",
        "remove-old": f"Remove the old secrets of {destination} from the history for good?",
    }[action]
    confirm(question, yes, "nothing was changed")
    if action == "rotate":
        return rotate_secret(
            options.admin(),
            destination,
            overlap=overlap or "24h",
            secret=secret,
            setting=setting,
            as_json=options.as_json,
        )
    if action == "remove-old":
        return remove_old_secrets(options.admin(), destination, options.as_json)
    answer = options.admin().request(
        "POST", f"/destinations/{quote(destination, safe='')}/end-overlap", {"setting": setting}
    )
    print(json.dumps(answer) if options.as_json else f"requests to {destination} are signed only with the new secret")
    return 0


def try_waiting(admin: AdminApi, destination: str, as_json: bool) -> int:
    """Ask for a try at once and print what is done."""
    asked = admin.request("POST", f"/destinations/{quote(destination, safe='')}/try", {})
    if as_json:
        print(json.dumps(asked))
        return 0
    figures = asked["figures"]
    about, count = "" if figures["queuedExact"] else "at most ", figures["queued"] + figures["retrying"]
    if asked["tries"] == "oldest":
        print(f"the oldest queued event is sent now; if {destination} accepts it, {about}{count} follow")
    else:
        retrying = figures["retrying"]
        what = "event that waits for a retry is" if retrying == 1 else "events that wait for a retry are"
        print(f"{retrying} {what} sent now")
    return 0


def _print(current: dict[str, Any], opposite: str, as_json: bool) -> int:
    if as_json:
        print(json.dumps(current))
        return 0
    figures = current["figures"]
    count = figures["queued"] + figures["retrying"]
    words = [f"{current['id']} is {current['state']}", f"{'' if figures['queuedExact'] else 'at most '}{count} queued"]
    if figures["oldestAt"]:
        words.append(f"the oldest since {figures['oldestAt']}")
    print(f"{', '.join(words)}; undo with: {opposite}")
    return 0


def rotate_secret(
    admin: AdminApi,
    destination: str,
    *,
    overlap: str,
    secret: str | None,
    setting: Setting | None,
    as_json: bool,
) -> int:
    """Rotate, and print the new secret if the server made it: this is the only time it is shown."""
    body = {"overlap": overlap, "secret": secret, "setting": setting}
    answer = admin.request("POST", f"/destinations/{quote(destination, safe='')}/rotate-secret", body)
    print(json.dumps(answer) if as_json else "\n".join(_lines(destination, answer)))
    return 0


def remove_old_secrets(admin: AdminApi, destination: str, as_json: bool) -> int:
    """Remove secrets that are not in force from the history of a destination, which may be deleted."""
    answer = admin.request("POST", f"/destinations/{quote(destination, safe='')}/remove-old-secrets", {})
    what = "has no old secrets any more" if answer["removed"] else "had no old secrets"
    print(json.dumps(answer) if as_json else f"the history of {destination} {what}")
    return 0


def _lines(destination: str, answer: dict[str, Any]) -> list[str]:
    lines = []
    if answer.get("secret"):
        lines.append(f"new secret of {destination}, shown only now: {answer['secret']}")
    running = [each for each in answer["destination"]["rotations"] if each["setting"] == answer["setting"]]
    if not running:
        return [
            *lines,
            f"requests to {destination} are signed only with the new secret; receivers with the old one refuse",
        ]
    return [
        *lines,
        f"until {running[0]['until']} requests carry the signatures of both secrets",
        f"when all receivers have the new one, you may end that early: hookline secrets end {destination}",
    ]
