"""One database file is put back from an older copy while the service is stopped, beside newer others and a newer
journal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.service.client import send
from tests.service.harness import Hookline, Receiver, Reply, wait_until, webhook

FILES = ("deliver", "control", "privacy", "insights", "profiles")
AUDIENCE = {
    "id": "buyers",
    "name": "Buyers",
    "destinations": ["crm"],
    "condition": {"event": "Bought", "count": {"gte": 1}},
}


def copy_files(of: Path, to: Path, names: Iterable[str]) -> None:
    """Copy databases with what is in their write-ahead logs, in place of what is there."""
    to.mkdir(exist_ok=True)
    for name in names:
        for suffix in ("", "-wal", "-shm"):
            (to / f"{name}.db{suffix}").unlink(missing_ok=True)
            if (of / f"{name}.db{suffix}").exists():
                shutil.copy2(of / f"{name}.db{suffix}", to)


def members(hookline: Hookline) -> set[str]:
    """Who is in the audience now, synced at once."""
    hookline.api("POST", "audiences/buyers/sync")
    answer = hookline.api("GET", "audiences/buyers/members")
    return {each["userId"] for each in answer.json["items"]} if answer.status == 200 else set()


def state(hookline: Hookline, replay: str) -> str:
    """How a replay stands."""
    return str(hookline.api("GET", f"replays/{replay}").json.get("state"))


def noticed(hookline: Hookline) -> set[str]:
    """The databases of which a notice says that they went back."""
    return {each["subject"] for each in hookline.api("GET", "notices?kind=database_went_back").json["items"]}


def test_each_file_is_put_back_by_itself(
    new_hookline: Callable[..., Hookline], receiver: Receiver, tmp_path: Path
) -> None:
    """A notice names it, every acknowledged event has reached its receiver, what was delivered is not sent again,
    people agree with the journal, a replay comes to its end, numbers are not given again, and new events flow."""
    failing: set[str] = {"early"}
    receiver.respond = lambda request: Reply(503 if request.message_id in failing else 200)
    definitions: dict[str, Any] = {"audiences": [AUDIENCE]}
    hookline = new_hookline(webhook("crm", receiver.url()), definitions=definitions)
    with hookline:
        hookline.wait_status(hookline.track("Bought", "early", userId="early"), "crm", "retrying")
        wait_until(lambda: members(hookline) == {"early"}, what="the first is a member")
        replay = hookline.api("POST", "replays", {"destination": "crm"}).json["id"]
        receiver.wait_for("early", 2)
    failing.clear()
    copy_files(hookline.data, tmp_path / "old", FILES)
    with hookline:
        sent = [hookline.track("Bought", userId="later") for _ in range(20)]
        failing |= {f"failing-{number}" for number in range(10)}
        for message in failing:
            hookline.track(message_id=message)
        for message in failing:
            hookline.wait_status(message, "crm", "retrying")
        for message in sent:
            hookline.wait_status(message, "crm", "delivered")
        wait_until(lambda: members(hookline) == {"early", "later"}, what="the next is a member")
        late = {"id": "late", "name": "Late", "type": "server", "writeKeys": ["wk_late"]}
        assert hookline.api("POST", "sources", late).status == 201
        request = hookline.api("POST", "deletion-requests", {"userId": "nobody", "action": "suppress"})
        assert request.status in (201, 202), request
        version = hookline.api("GET", "connections/versions").json["items"][0]["version"]
    tried = set(failing)
    failing.clear()
    for name in FILES:
        copy_files(tmp_path / "old", hookline.data, [name])
        with hookline:
            hookline.wait_status(hookline.track(), "crm", "delivered")
            wait_until(lambda name=name: name in noticed(hookline), what=f"a notice tells of {name}")  # type: ignore[misc]
            for message in tried:
                hookline.wait_status(message, "crm", "delivered")
            wait_until(lambda: members(hookline) == {"early", "later"}, what="people agree with the journal")
            wait_until(lambda: state(hookline, replay) == "done", 60, "the replay comes to its end")
            assert hookline.api("GET", "connections/versions").json["items"][0]["version"] >= version
            assert send(hookline.collect_port, "GET", "/readyz").status == 200
    assert [len(receiver.of(message)) for message in sent] == [1] * len(sent)
