"""Commits are brought to the disk a few times a second: a power cut takes back a moment, not everything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookline.deliver.checkpointer import SYNC_SECONDS
from tests.unit.deliver.rig import Rig, destination, source


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were synchronised."""
    names: list[str] = []
    real = os.fdatasync

    def noting(descriptor: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", noting)
    return names


def deliver(rig: Rig, name: str) -> None:
    """One event, delivered and saved."""
    rig.append(name)
    rig.turn()
    rig.answer_all(200)
    rig.checkpoint()


def test_not_with_every_checkpoint(rig: Rig, synced: list[str]) -> None:
    """At most once in the time that a power cut may take back."""
    rig.change(source(), destination("crm"))
    rig.start()
    deliver(rig, "first")
    synced.clear()
    rig.pass_time(SYNC_SECONDS)
    for number in range(5):
        deliver(rig, f"m{number}")
    assert synced.count("deliver.db-wal") == 1


def test_the_last_ones_too(rig: Rig, synced: list[str]) -> None:
    """What was saved before everything fell silent is brought to the disk a moment later, and then no more."""
    rig.change(source(), destination("crm"))
    rig.start()
    deliver(rig, "a")
    deliver(rig, "b")
    synced.clear()
    for _ in range(3):
        rig.pass_time(SYNC_SECONDS)
        rig.checkpoint()
    assert synced.count("deliver.db-wal") == 1


def test_a_disk_that_refuses_is_asked_again(rig: Rig, monkeypatch: pytest.MonkeyPatch, synced: list[str]) -> None:
    """At stake are repeats only, so nothing stops."""
    rig.change(source(), destination("crm"))
    rig.start()
    deliver(rig, "a")

    def refuse(descriptor: int) -> None:
        raise OSError(5, "refused")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", refuse)
        rig.pass_time(SYNC_SECONDS)
        deliver(rig, "b")
    rig.pass_time(SYNC_SECONDS)
    rig.checkpoint()
    assert "deliver.db-wal" in synced
