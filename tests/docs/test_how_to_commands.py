"""The commands of how-to pages, run as they stand there: only ids, times and ports are this service's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from hookline.cli.commands import app
from tests.docs.pages import DOCS
from tests.docs.test_cli import commands
from tests.docs.test_first_hour import run
from tests.service.harness import Hookline, Receiver, Reply, wait_until, webhook

COMMANDS = commands(app)
PAGES = {
    "pause-safely": 2,
    "replay-a-day": 10,
    "rotate-a-secret": 2,
    "let-people-in": 2,
    "use-issues": 3,
    "make-an-audience": 3,
}
"""With the number of commands: fewer mean that they are no longer found."""
REFUSED = 3
OTHERS = 100
"""Events that a slow replay is busy with for longer than a command takes on a busy machine."""


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """A service with a few dead letters of one cause at the destination that the pages speak of."""
    with Receiver() as receiver:
        receiver.respond = lambda request: Reply(
            400 if (request.path, request.json["event"]) == ("/crm", "Refused") else 200
        )
        destinations = [webhook(name, receiver.url(f"/{name}"), secret="s3cret") for name in ("crm", "warehouse")]
        with Hookline(tmp_path_factory.mktemp("how-to"), destinations) as running:
            refused = [running.track("Refused") for _ in range(REFUSED)]
            others = [{"type": "track", "userId": "u1", "event": "Order"}] * OTHERS
            assert running.post("/v1/batch", {"batch": others}).status == 200
            for message_id in refused:
                running.wait_status(message_id, "crm", "failed")
            wait_until(lambda: running.api("GET", "issues").json["items"], what="the issue")
            yield running


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works(page: str, hookline: Hookline) -> None:
    """None fails; one that asks on a terminal is told yes."""
    text = (DOCS / "how-to" / f"{page}.md").read_text()
    shell = "".join(re.findall(r"```\w+\n(.*?)```", text, re.DOTALL))
    lines = re.findall(r"^ *(hookline [^\n]*)", shell, re.MULTILINE)
    assert len(lines) == PAGES[page]
    for line in lines:
        if "audiences syncs" in line:  # the page creates it with a call, which other tests run
            _make_the_audience(hookline)
        run(hookline, _answered(line), hookline.admin_token, _ids(hookline, line))


def _make_the_audience(hookline: Hookline) -> None:
    condition = {"event": "Order Completed", "count": {"gte": 2}}
    audience = {"id": "big_spenders", "name": "Big Spenders", "destinations": ["crm"], "condition": condition}
    assert hookline.api("POST", "audiences", audience).status == 201
    hookline.post("/v1/track", {"userId": "u1", "event": "Order Completed"})
    path = "audiences/big_spenders/explain?userId=u1"
    wait_until(lambda: hookline.api("GET", path).status == 200, what="the person is known")


def _answered(line: str) -> str:
    """Return a command that does not ask."""
    command, _, comment = line.partition("  #")
    words = command.split()[1:]
    name = next(" ".join(words[:count]) for count in (2, 1) if " ".join(words[:count]) in COMMANDS)
    known = {option for each in COMMANDS[name].assemble_argument_collection() for option in each.names}
    detached = " --detach" if "--detach" in known else ""
    return f"{command}{' --yes' if '--yes' in known else ''}{detached} # {comment}"


def _ids(hookline: Hookline, line: str) -> dict[str, str]:
    """Return what stands for the ids of a page: an issue, two dead letters, a replay that takes its time."""
    found = {" ID ": f" {hookline.api('GET', 'issues').json['items'][0]['id']} "}
    letters = hookline.api("GET", "dead-letters?destination=crm").json["items"]
    found |= dict(zip(("4711", "4712"), (str(each["id"]) for each in letters), strict=False))
    if "r7" in line:
        slowly = {} if "watch" in line else {"rate": 1}
        body = {"destination": "warehouse", "from": "2026-01-01T00:00:00Z", **slowly}
        found["r7"] = hookline.api("POST", "replays", body).json["id"]
        if "resume" in line:
            hookline.api("POST", f"replays/{found['r7']}/pause")
    return found
