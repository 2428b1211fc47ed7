"""Rotating a destination's secret: what is refused, what goes on, what ends it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from msgspec.structs import replace

from hookline.connections import file
from hookline.connections.edits import Put
from hookline.connections.model import Destination, StandardWebhooks
from hookline.connections.rotation import (
    REMEMBERED_MAX,
    RotationRefused,
    carry_rotations,
    end_overlap,
    new_secret,
    rotate,
    running_rotations,
    setting_to_rotate,
)
from hookline.connections.secrets import redact
from hookline.connections.store import ChangeRefused, Store
from hookline.events.signature import standard_key
from tests.unit.connections.examples import change, destination, ends, source

NOW_MS = 1_795_158_000_000
DAY_SECONDS = 86_400
OLD, NEW, THIRD = "the-old-shared-secret", "the-new-shared-secret", "a-third-shared-secret"
WHSEC = "whsec_" + base64.b64encode(bytes(32)).decode()
STORED = destination(secret=OLD)
TEXT = f"""\
sources: [{{id: website, name: Website, writeKeys: [wk_website]}}]
destinations:
- id: crm
  name: Crm
  sources: [website]
  settings: {{webhooks: [{{url: "https://crm.example.com/hook"}}], sharedSecret: "{OLD}"}}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in which a file made the destination."""
    made = Store(tmp_path / "control.db", now_ms=lambda: NOW_MS)
    file.apply(made, TEXT, "somebody", ends(0))
    return made


def rotated(store: Store, secret: str = NEW) -> Destination:
    """The stored destination after a rotation of a day."""
    new = rotate(current(store), "sharedSecret", secret, DAY_SECONDS, NOW_MS)
    change(store, Put(new, rotating=True))
    return current(store)


def current(store: Store) -> Destination:
    """The destination in force."""
    stored = store.destination("crm")
    assert stored is not None
    return stored.object


def test_a_rotation_has_both_secrets_until_the_overlap_ends() -> None:
    """The new secret is the setting's; the old one is beside it with its end, and runs out by the clock."""
    made = rotate(STORED, "sharedSecret", NEW, DAY_SECONDS, NOW_MS)
    assert made.settings.shared_secret == NEW
    (rotation,) = running_rotations(made, NOW_MS + DAY_SECONDS * 1000 - 1)
    assert (rotation.previous, rotation.since, rotation.until) == (
        OLD,
        "2026-11-20T07:00:00.000Z",
        "2026-11-21T07:00:00.000Z",
    )
    assert running_rotations(made, NOW_MS + DAY_SECONDS * 1000) == ()


def test_what_is_shown_has_no_secret_and_no_digest() -> None:
    """People see which secret is good until when by its last characters, and nothing of what has ended."""
    made = rotate(STORED, "sharedSecret", NEW, DAY_SECONDS, NOW_MS)
    (shown,) = redact(made, now_ms=NOW_MS).rotations
    assert (shown.setting, shown.previous, shown.digest) == ("sharedSecret", "…cret", "")
    assert redact(made, now_ms=NOW_MS + DAY_SECONDS * 1000).rotations == ()


@pytest.mark.parametrize(
    ("secret", "overlap_seconds", "code"),
    [(OLD, 60, "secret_unchanged"), (NEW, -1, "invalid_overlap"), (NEW, 91 * DAY_SECONDS, "invalid_overlap")],
)
def test_a_rotation_that_makes_no_sense_is_refused(secret: str, overlap_seconds: float, code: str) -> None:
    """The secret in use and an overlap out of bounds are refused with a code and a sentence."""
    with pytest.raises(RotationRefused) as refused:
        rotate(STORED, "sharedSecret", secret, overlap_seconds, NOW_MS)
    assert refused.value.code == code


def test_a_running_rotation_must_end_first() -> None:
    """Three secrets at once fit into no header: the second rotation waits, or the overlap is ended."""
    made = rotate(STORED, "sharedSecret", NEW, DAY_SECONDS, NOW_MS)
    with pytest.raises(RotationRefused, match="2026-11-21") as refused:
        rotate(made, "sharedSecret", THIRD, 0, NOW_MS)
    assert refused.value.code == "rotation_running"
    ended = end_overlap(made, None, NOW_MS)
    assert running_rotations(ended, NOW_MS) == ()
    assert rotate(ended, "sharedSecret", THIRD, 0, NOW_MS).settings.shared_secret == THIRD
    with pytest.raises(RotationRefused, match="no overlap to end"):
        end_overlap(ended, None, NOW_MS)


def test_the_setting_is_named_where_there_are_two() -> None:
    """One secret needs no name, two do, none cannot rotate."""
    both = replace(STORED, settings=replace(STORED.settings, standard_webhooks=StandardWebhooks(secret=WHSEC)))
    assert setting_to_rotate(STORED, None) == "sharedSecret"
    assert setting_to_rotate(both, "standardWebhooks") == "standardWebhooks"
    for wanted, named, code in (
        (both, None, "setting_not_named"),
        (STORED, "standardWebhooks", "nothing_to_rotate"),
        (destination(), None, "nothing_to_rotate"),
    ):
        with pytest.raises(RotationRefused) as refused:
            setting_to_rotate(wanted, named)  # type: ignore[arg-type]
        assert refused.value.code == code


def test_other_changes_leave_a_rotation_alone() -> None:
    """Whatever a body says about rotations, the stored ones go on while their secret stays, and end with it."""
    made = rotate(STORED, "sharedSecret", NEW, DAY_SECONDS, NOW_MS)
    renamed = replace(made, name="Renamed", rotations=())
    assert carry_rotations(renamed, made).rotations == made.rotations
    assert carry_rotations(replace(made, rotations=made.rotations * 2), None).rotations == ()
    third = carry_rotations(destination(secret=THIRD), made)
    assert running_rotations(third, NOW_MS) == ()
    assert carry_rotations(destination(), made).rotations == ()


def test_a_file_with_the_old_secret_undoes_nothing(store: Store) -> None:
    """Applied again, now or long after, the file changes nothing, says so, and the service can still start with it."""
    made = rotated(store)
    version = store.version
    applied = file.apply(store, TEXT, "somebody", ends(0))
    assert (applied.problems, store.version, current(store)) == ((), version, made)
    stale = applied.changes[1]
    assert (stale.action, stale.stale_secret) == ("keep", True)
    assert "rotated out" in (stale.note or "")
    change(store, Put(end_overlap(made, None, NOW_MS), rotating=True))
    file.apply(store, TEXT.replace("name: Crm", "name: Sales"), "somebody", ends(0))
    assert (current(store).name, current(store).settings.shared_secret) == ("Sales", NEW)


@pytest.mark.parametrize("written", ["keep", NEW])
def test_a_file_that_follows_changes_nothing(store: Store, written: str) -> None:
    """With keep or the new secret the file agrees; no note, no change."""
    made = rotated(store)
    applied = file.apply(store, TEXT.replace(OLD, written), "somebody", ends(0))
    assert [(each.action, each.note) for each in applied.changes] == [("keep", None), ("keep", None)]
    assert current(store) == made


def test_a_file_with_a_third_secret_ends_the_rotation_openly(store: Store) -> None:
    """A new secret in the file is a change like any other, and the difference shows the overlap that ends with it."""
    rotated(store)
    applied = file.apply(store, TEXT.replace(OLD, THIRD), "somebody", ends(0))
    paths = [field.path for field in applied.changes[1].fields]
    assert paths[0] == "settings.sharedSecret"
    assert "rotations[0].until" in paths
    assert not any("digest" in path for path in paths)
    assert running_rotations(current(store), NOW_MS) == ()


def test_an_object_with_the_old_secret_is_refused(store: Store) -> None:
    """Through the API somebody is there to read why: nothing is changed, rotating back is said to be the way."""
    rotated(store)
    with pytest.raises(ChangeRefused, match="rotate back") as refused:
        change(store, destination(secret=OLD))
    assert [problem.code for problem in refused.value.problems] == ["rotated_out"]
    ended = end_overlap(current(store), None, NOW_MS)
    change(store, Put(ended, rotating=True))
    assert rotated(store, OLD).settings.shared_secret == OLD
    assert file.apply(store, TEXT, "somebody", ends(0)).changes[1].note is None


def test_an_export_holds_no_rotation(store: Store) -> None:
    """A rotation is nobody's to write, so the file has none, and applying it back leaves the running one."""
    made = rotated(store)
    text = file.export(store.snapshot())
    assert "rotations" not in text
    assert OLD not in text
    file.apply(store, text, "somebody", ends(0))
    assert current(store) == made


@pytest.mark.parametrize(
    ("given", "code", "path", "words"),
    [
        ("settings: {standardWebhooks: {secrt: x}}", "unknown_key", "settings.standardWebhooks.secrt", "'secret'"),
        (
            "settings: {standardWebhooks: {generate: true}}",
            "unknown_key",
            "settings.standardWebhooks.generate",
            "secret",
        ),
        ("rotations: [{setting: sharedSecret}]", "invalid_value", "rotations", "secrets rotate"),
    ],
)
def test_what_a_file_cannot_say_has_its_place(given: str, code: str, path: str, words: str) -> None:
    """A misspelt key inside standardWebhooks is named as elsewhere, and rotations are said to be made, not written."""
    problems = file.check_text(f"destinations: [{{id: crm, name: Crm, {given}}}]")
    (problem,) = (each for each in problems if each.path == f"destinations[0].{path}")
    assert problem.code == code
    assert words in problem.message


def test_only_so_many_are_remembered() -> None:
    """The list of secrets rotated out is bounded, the latest stay."""
    made = STORED
    for number in range(REMEMBERED_MAX + 5):
        made = rotate(made, "sharedSecret", f"secret-number-{number}", 0, NOW_MS)
    assert len(made.rotations) == REMEMBERED_MAX
    assert all(each.previous is None for each in made.rotations)


def test_made_secrets_have_the_form_of_their_setting() -> None:
    """Each is long, new every time, and good for its setting."""
    assert len({new_secret("sharedSecret") for _ in range(20)}) == 20
    assert len(standard_key(new_secret("standardWebhooks"))) == 32


@pytest.mark.parametrize(
    ("secret", "words"),
    [("plain", "begins with whsec_"), ("whsec_", "0 bytes"), ("env:HOME", "HOOKLINE_SECRET_"), ("", "empty")],
)
def test_a_wrong_standard_secret_is_refused(store: Store, secret: str, words: str) -> None:
    """A secret that Standard Webhooks cannot use is refused where it is written, with its place."""
    settings = replace(STORED.settings, standard_webhooks=StandardWebhooks(secret=secret))
    with pytest.raises(ChangeRefused, match=words) as refused:
        change(store, source(), replace(STORED, settings=settings))
    (problem,) = refused.value.problems
    assert (problem.code, problem.path) == ("invalid_secret", "settings.standardWebhooks.secret")


def test_headers_of_standard_webhooks_are_free_elsewhere(store: Store) -> None:
    """A static header may be called webhook-id as long as the destination does not ask for that way of signing."""
    plain = destination(headers={"Webhook-Id": "mine"})
    change(store, plain)
    with pytest.raises(ChangeRefused, match="set by standardWebhooks"):
        change(
            store, replace(plain, settings=replace(plain.settings, standard_webhooks=StandardWebhooks(secret=WHSEC)))
        )
