"""docs/reference/notices.md against the kinds of notices, and docs/reference/notifications.md against the triggers."""

from __future__ import annotations

from hookline.telemetry.notices import KINDS, TRIGGERS
from tests.docs.pages import rows


def test_every_kind_is_documented_with_its_severity() -> None:
    """The table lists exactly the kinds there are, in their order."""
    assert [(row[0], row[1]) for row in rows("reference/notices.md")] == [
        (name, kind.severity) for name, kind in KINDS.items()
    ]


def test_every_trigger_is_documented_with_its_thresholds() -> None:
    """The table lists exactly the triggers there are, and the thresholds that mean something for each."""
    documented = [(row[0], row[1].replace("`", ""), *row[2:4]) for row in rows("reference/notifications.md")]
    assert documented == [
        (name, ", ".join(each.thresholds) or "–", each.about, each.explains) for name, each in TRIGGERS.items()
    ]


def test_every_kind_that_is_no_recovery_has_one_trigger() -> None:
    """So nothing that is worth a notice can be left out of notifications."""
    named = [kind for trigger in TRIGGERS.values() for kind in trigger.kinds]
    followed = {kind.followed_by for kind in KINDS.values()}
    assert sorted(named) == sorted(kind for kind in KINDS if kind not in followed)


def test_no_next_step_is_a_call_of_the_api() -> None:
    """People read them on pages too; where a page helps, it has a button."""
    assert not [name for name, kind in KINDS.items() if "/api/" in kind.next_step or "GET " in kind.next_step]
