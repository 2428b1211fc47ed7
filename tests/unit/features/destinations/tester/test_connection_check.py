"""Asking whether a destination without requests could write, saved or not, by the rules of deliveries."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from hookline.features.destinations.tester import connection
from hookline.settings import Deliver
from tests.unit.control.running import Running

LAKE: dict[str, Any] = {"id": "lake", "name": "Lake", "kind": "files", "settings": {"where": "folder"}}
SERVER = {"host": "127.0.0.1", "database": "d", "user": "u", "password": "hidden-word"}


def ask(control: Running, **body: Any) -> Any:
    """The answer for some settings."""
    return control.api("POST", "/destinations/check-connection", body)


def test_settings_that_are_not_saved(control: Running, tmp_path: Path) -> None:
    """A new folder can be written, and nothing is there afterwards."""
    answer = ask(control, id="lake", kind="files", settings={"where": "folder", "prefix": "a"})
    assert (answer.status, answer.json["ok"], answer.json["place"]) == (200, True, "files/lake/a")
    assert answer.json["message"] == "It answers and can be written to. No event was written."
    assert not list(tmp_path.rglob("files/lake"))


def test_a_saved_destination_with_changes(control: Running) -> None:
    """What is not given is as saved, what is null is left out, and `test` asks the same of it as saved."""
    control.api("POST", "/destinations", {**LAKE, "settings": {"where": "folder", "prefix": "a", "format": "parquet"}})
    assert ask(control, id="lake").json["place"] == "files/lake/a"
    assert ask(control, id="lake", settings={"prefix": None}).json["place"] == "files/lake"
    report = control.api("POST", "/destinations/lake/test", {}).json
    assert report["connection"]["ok"]
    assert (report["requests"], report["answers"]) == ([], None)
    assert control.api("POST", "/destinations/lake/test", {"dryRun": True}).json["connection"] is None


def test_the_guard_holds(control: Running) -> None:
    """An inner address is not connected to, although this machine could; the sentence names the way out."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        answer = ask(control, kind="postgres", settings={**SERVER, "port": port}).json
        listener.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not answer["ok"]
    assert "deliver.allow_networks" in answer["message"]
    assert "hidden-word" not in str(answer)


def test_whom_it_connected_to_is_on_record(control: Running) -> None:
    """An editor chooses the server: the audit log has the place, and nothing secret."""
    ask(control, kind="postgres", settings={**SERVER, "port": 1})
    (entry, *_) = control.api("GET", "/audit-log").json["items"]
    assert (entry["action"], entry["changes"][0]["after"]) == ("check_connection", "postgres://127.0.0.1:1/d")
    assert "hidden-word" not in str(entry)


def test_a_saved_password_goes_nowhere_else(control: Running) -> None:
    """With another host it has to be given again, and what is wrong is said at its field."""
    wh = {"id": "wh", "name": "W", "kind": "postgres", "settings": {**SERVER, "host": "203.0.114.1"}}
    assert control.api("POST", "/destinations", wh).status == 201
    moved = ask(control, id="wh", settings={"host": "203.0.114.2"})
    assert (moved.status, moved.json["code"]) == (422, "nothing_to_keep")
    wrong = ask(control, id="wh", settings={"port": 70_000})
    assert [each["pointer"] for each in wrong.json["errors"]] == ["/settings/port"]


def test_who_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes connections and says nothing: the answer comes in a bounded time, and says so."""
    monkeypatch.setattr(connection, "CHECK_SECONDS", 1.0)
    deliver = Deliver(allow_networks=["127.0.0.0/8"])
    with Running(tmp_path / "data", deliver=deliver) as control, socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {**SERVER, "port": silent.getsockname()[1], "sslMode": "disable"}
        answer = ask(control, kind="postgres", settings=settings).json
    said = "No answer within 1 s; check that the server runs and can be reached from here."
    assert (answer["ok"], answer["message"]) == (False, said)


def test_kinds_that_make_requests_and_strangers(control: Running) -> None:
    """The former are told what to use; of an unknown id nothing is known without a kind."""
    webhook = ask(control, kind="webhook", settings={"webhooks": [{"url": "https://example.com/"}]})
    assert (webhook.status, webhook.json["code"]) == (422, "makes_requests")
    assert ask(control, id="nobody").status == 404
