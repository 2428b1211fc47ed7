"""Connections as a file, through the API."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from hookline.connections import file
from hookline.connections.model import Snapshot
from tests.unit.control.running import Answer, Running, destination, source


def apply(control: Running, document: dict[str, Any] | str, **options: bool) -> Answer:
    """Send a file's text (JSON is YAML)."""
    text = document if isinstance(document, str) else json.dumps(document)
    return control.api("POST", "/connections/apply", {"document": text, **options})


FILE = {"sources": [source()], "destinations": [destination(secret="a-long-shared-secret")]}


def test_a_file_is_applied_and_then_changes_nothing(control: Running) -> None:
    """The first time creates, the second time keeps; the version says so."""
    first = apply(control, FILE)
    assert first.status == 200
    assert {(each["action"], each["id"]) for each in first.json["changes"]} == {("create", "site"), ("create", "crm")}
    again = apply(control, FILE)
    assert again.json["version"] == first.json["version"]
    assert {each["action"] for each in again.json["changes"]} <= {"keep"}


def test_a_dry_run_only_looks(control: Running) -> None:
    """It tells the changes and makes none."""
    looked = apply(control, FILE, dryRun=True)
    assert len(looked.json["changes"]) == 2
    assert control.api("GET", "/sources").json["items"] == []


def test_only_pruning_deletes(control: Running) -> None:
    """What the file no longer has stays until asked to go, and what the API made always stays."""
    apply(control, FILE)
    control.api("POST", "/sources", source("by-hand"))
    smaller = {"sources": [source()]}
    apply(control, smaller)
    assert control.api("GET", "/destinations/crm").status == 200
    apply(control, smaller, prune=True)
    assert control.api("GET", "/destinations/crm").status == 404
    assert control.api("GET", "/sources/by-hand").status == 200


def test_of_many_mistakes_the_first_are_told(control: Running) -> None:
    """The sentence says how many there are in all, and the last of the list how many are not in it."""
    wrong = {"sources": [{**source(), **{f"u{number}": 1 for number in range(5_000)}}]}
    answer = apply(control, wrong, dryRun=True)
    assert (answer.status, answer.json["code"], len(answer.json["errors"])) == (422, "unknown_key", 101)
    assert answer.json["detail"].endswith(" (and 4,999 more).")
    assert answer.json["errors"][-1] == {"pointer": "", "detail": "and 4,900 more; correct these first"}


def test_everything_wrong_is_told_at_once(control: Running) -> None:
    """A wrong file changes nothing and is answered with each problem's place."""
    wrong = {"sources": [source()], "destinations": [destination(sources=["a", "b"])]}
    answer = apply(control, wrong)
    assert (answer.status, answer.json["code"]) == (422, "unknown_source")
    assert [each["pointer"] for each in answer.json["errors"]] == [
        "/destinations/0/sources/0",
        "/destinations/0/sources/1",
    ]
    assert control.api("GET", "/sources").json["items"] == []


def test_text_that_is_no_file_is_a_problem(control: Running) -> None:
    """Broken YAML is 422 with the line."""
    answer = apply(control, "sources: [")
    assert (answer.status, answer.json["code"]) == (422, "invalid_yaml")
    assert "line" in answer.json["errors"][0]["detail"]


def test_nobody_waits_for_an_export_of_others(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one takes seconds: it is written in a thread, as it is read in one."""
    export, threads = file.export, []

    def noting(snapshot: Snapshot) -> str:
        threads.append(threading.current_thread().name)
        return export(snapshot)

    monkeypatch.setattr(file, "export", noting)
    assert control.api("GET", "/connections/export").status == 200
    assert threads[0].startswith("asyncio")


def test_an_export_applies_to_nothing_new(control: Running) -> None:
    """What is exported, applied again, keeps everything: secrets are `keep`."""
    apply(control, FILE)
    exported = control.api("GET", "/connections/export")
    assert exported.headers["content-type"].startswith("application/yaml")
    assert "a-long-shared-secret" not in exported.text
    assert {each["action"] for each in apply(control, exported.text).json["changes"]} <= {"keep"}
