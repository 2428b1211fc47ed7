"""`hookline delete-user`, `deletion-requests` and `suppressions` against a running service."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline, wait_until


def test_people_are_deleted_and_suppressed_from_the_command_line(
    new_hookline: Callable[..., Hookline], run: Run
) -> None:
    """By ids and from a file, each once; the request is followed to its evidence; suppression is listed and lifted."""
    with new_hookline() as hookline:
        hookline.track(userId="u1", anonymousId="a1", messageId="m-1")
        (hookline.folder / "people.csv").write_text("userId,mail\nu1,x@example.com\nu2,\n\n")
        asked = run(hookline, "delete-user", "u1", "--csv", "people.csv", "--action", "both", "--json", "--yes")
        (made,) = json.loads(asked.stdout)
        assert (made["people"], made["action"]) == (2, "both")
        show = lambda: run(hookline, "deletion-requests", "show", made["id"], "--json")  # noqa: E731
        wait_until(lambda: json.loads(show().stdout)["state"] == "done", what="done")
        report = run(hookline, "deletion-requests", "evidence", made["id"])
        assert report.returncode == 0
        assert "erased: 1 events" in report.stdout
        assert "2 ids, 1 events" in report.stdout
        assert "u1" not in report.stdout.split()
        gone = run(hookline, "why", "m-1")
        assert (gone.returncode, "erased by a deletion request" in gone.stderr) == (1, True)
        assert made["id"] in run(hookline, "deletion-requests", "list", "--user-id", "u2").stdout
        assert "there are none" in run(hookline, "deletion-requests", "list", "--user-id", "u3").stdout
        assert len(run(hookline, "suppressions", "list").stdout.splitlines()) == 3
        assert run(hookline, "suppressions", "lift", "u2", "nobody").stdout == "1 of 2 lifted\n"
        assert run(hookline, "suppressions", "lift", "nobody").returncode == 1
        assert run(hookline, "delete-user", "--action", "both").returncode == 2
        assert run(hookline, "deletion-requests", "show", "dr9").returncode == 1


def test_people_who_are_not_kept_are_not_said_to_be_unknown(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Without an audience or a computed trait there are only events: the search says where to look instead."""
    with new_hookline() as hookline:
        hookline.track(userId="u1")
        assert "hookline events --text 'jo smith'" in run(hookline, "people", "search", "jo smith").stdout
        assert "hookline people events" in run(hookline, "people", "show", "--user-id", "u1").stderr


@pytest.mark.parametrize(
    "text",
    ["User_Id;mail\nu1;a@b.c\nu2;\n", '"userId"\tmail\nu1\ta@b.c\nu2\n', "User ID,mail\nu1\nu2\n", "u1,a@b.c\nu2\n"],
)
def test_a_list_of_people_as_spreadsheets_write_it(text: str, new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Some separate columns by semicolons or tabs: such a line was one id, which nobody has, and erased nobody."""
    hookline = new_hookline()
    hookline.folder.mkdir()
    (hookline.folder / "list.csv").write_text("\ufeff" + text)
    asked = run(hookline, "delete-user", "--csv", "list.csv", "--action", "delete")
    assert "Erase the data of 2 people (u1, u2)?" in asked.stderr
    assert asked.returncode == 2


def test_columns_that_nothing_names_are_no_ids(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """``u1;a@b.c`` is nobody: a request for them would end as done."""
    hookline = new_hookline()
    hookline.folder.mkdir()
    (hookline.folder / "list.csv").write_text("u1;a@b.c\nu2;\n")
    asked = run(hookline, "delete-user", "--csv", "list.csv", "--action", "delete", "--yes")
    assert (asked.returncode, "put a line with the heading userId first" in asked.stderr) == (2, True)


def test_the_evidence_names_whom_to_delete_by_hand(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """A destination without a delete message ends as filtered, with what to do, in the evidence and in words."""
    request = {"name": "Orders", "url": "https://api.example/", "if": 'event = "Order"'}
    made = {"id": "chat", "name": "Chat", "kind": "http", "sources": ["site"], "settings": {}, "mapping": [request]}
    with new_hookline() as hookline:
        assert hookline.api("POST", "destinations", made).status == 201
        hookline.track(userId="u1")
        asked = json.loads(run(hookline, "delete-user", "u1", "--action", "delete", "--json", "--yes").stdout)
        shown = ["deletion-requests", "evidence", asked[0]["id"]]
        wait_until(lambda: run(hookline, *shown).returncode == 0, what="done")
        text = run(hookline, *shown).stdout
        assert "delete message sent once" in text
        assert "  delete  " in run(hookline, "events", "--type", "delete").stdout
        assert "▲ delete by hand in the services of: chat (nothing was sent there)" in text
        assert "this destination's mapping has no delete message, so nothing was sent. Delete the person" in text
        (source,) = json.loads(run(hookline, *shown, "--json").stdout)["people"][0]["sources"]
        chat = next(each for each in source["destinations"] if each["destination"] == "chat")
        assert (chat["status"], chat["reason"].partition(",")[0]) == (
            "filtered",
            "this destination's mapping has no delete message",
        )
