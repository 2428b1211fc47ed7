"""``hookline secrets``: rotate a destination's secret, end the overlap, or remove old ones from the history."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi
from hookline.connections.model import SecretSetting

Action = Literal["rotate", "end"]


def rotate_secret(
    admin: AdminApi,
    destination: str,
    *,
    overlap: str,
    secret: str | None,
    setting: SecretSetting | None,
    as_json: bool,
) -> int:
    """Rotate, and print the new secret if the server made it: this is the only time it is shown."""
    body = {"overlap": overlap, "secret": secret, "setting": setting}
    answer = admin.request("POST", f"/destinations/{quote(destination, safe='')}/rotate-secret", body)
    print(json.dumps(answer) if as_json else "\n".join(_told(destination, answer)))
    return 0


def end_overlap(admin: AdminApi, destination: str, *, setting: SecretSetting | None, as_json: bool) -> int:
    """Make the new secret the only one."""
    answer = admin.request("POST", f"/destinations/{quote(destination, safe='')}/end-overlap", {"setting": setting})
    print(json.dumps(answer) if as_json else f"{destination} is signed with the new secret alone")
    return 0


def remove_old_secrets(admin: AdminApi, destination: str, as_json: bool) -> int:
    """Remove secrets that are not in force from the history of a destination, which may be deleted."""
    answer = admin.request("POST", f"/destinations/{quote(destination, safe='')}/remove-old-secrets", {})
    what = "is rid of its old secrets" if answer["removed"] else "had no old secrets"
    print(json.dumps(answer) if as_json else f"the history of {destination} {what}")
    return 0


def _told(destination: str, answer: dict[str, Any]) -> list[str]:
    lines = []
    if answer.get("secret"):
        lines.append(f"new secret of {destination}, shown only now: {answer['secret']}")
    running = [each for each in answer["destination"]["rotations"] if each["setting"] == answer["setting"]]
    if not running:
        return [*lines, f"{destination} is signed with the new secret alone; receivers with the old one refuse"]
    return [
        *lines,
        f"until {running[0]['until']} requests carry the signatures of both secrets",
        f"when all receivers have the new one, you may end that early: hookline secrets end {destination}",
    ]
