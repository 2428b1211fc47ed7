"""Every kind of notice about the system itself: how bad it is, its sentence and the next step, in one table.

``{who}`` in a sentence is what the notice is about, ``{detail}`` what was found. Who opens and resolves them is
``control/notice_watch.py``; a new kind is one line here and a condition that finds it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["info", "warning", "critical"]

OTHERS = "*"
"""The subject of the one notice that stands for all beyond the bound of a kind."""
DETAIL_CHARACTERS_MAX = 500


class Kind(NamedTuple):
    """One kind. ``passing`` notices tell of a moment and are resolved at once; ``followed_by`` names the one that is
    told when a notice of this kind is resolved and its destination is well again."""

    severity: Severity
    noun: str
    sentence: str
    next_step: str
    passing: bool = False
    followed_by: str | None = None


KINDS: dict[str, Kind] = {
    "destination_paused": Kind(
        "info",
        "destination",
        "{who} is paused {detail}. Its events are queued. Nothing is lost while retention lasts.",
        "Resume it (hookline resume) when its receiver accepts events again.",
        followed_by="destination_resumed",
    ),
    "destination_gone": Kind(
        "critical",
        "destination",
        "{who} was paused by Hookline {detail}. Its events are queued. Nothing is lost while retention lasts.",
        "Correct its URLs, then resume it (hookline resume). Or disable it.",
        followed_by="destination_resumed",
    ),
    "destination_resumed": Kind(
        "info",
        "destination",
        "{who} is no longer paused.",
        "Nothing to do. Queued events are being sent.",
        passing=True,
    ),
    "destination_breaker_open": Kind(
        "warning",
        "destination",
        "{who} keeps failing: {detail}. Its events are queued. Nothing is lost while retention lasts.",
        "Open the destination's attempts (or run hookline why), and repair the receiver. Hookline retries by itself.",
        followed_by="destination_recovered",
    ),
    "destination_recovered": Kind(
        "info",
        "destination",
        "{who} accepts events again: its breaker is closed.",
        "Nothing to do. Queued events are being sent.",
        passing=True,
    ),
    "dead_letters_growing": Kind(
        "warning",
        "destination",
        "{who} has failing events: {detail}.",
        "Open its dead letters (GET /api/v1/dead-letters?destination=ID), repair the cause, then retry them.",
    ),
    "deletion_not_acknowledged": Kind(
        "critical",
        "destination",
        "{who} does not acknowledge deletions: {detail}.",
        "Repair its receiver. Hookline resends the messages every few hours for 30 days (hookline deletion-requests).",
    ),
    "client_certificate_expiring": Kind(
        "warning",
        "destination",
        "{who} uses a client certificate that expires soon: {detail}.",
        "Renew it and put it where clientCertificate and clientKey point. New connections use it automatically.",
    ),
    "client_certificate_unusable": Kind(
        "critical",
        "destination",
        "{who} cannot use its client certificate: {detail}.",
        "Correct it. New connections use it automatically, and queued events are sent then.",
    ),
    "retention_near": Kind(
        "critical",
        "destination",
        "{who} is about to lose events to retention: {detail}.",
        "Repair its receiver, or raise retention.events and retention.bytes until the queue is empty.",
    ),
    "retention_passed": Kind(
        "critical",
        "destination",
        "{who} has lost events to retention: {detail}.",
        "These events are gone. Raise retention.events or retention.bytes before the next long outage.",
    ),
    "journal_damaged": Kind(
        "critical",
        "part of the journal's",
        "{who} cannot be read. Everything else keeps working. {detail}.",
        "Check the disk. If you have a snapshot, stop Hookline and restore the named segments from it.",
    ),
    "journal_filling": Kind(
        "warning",
        "setting",
        "{who} is nearly used up by events queued for working destinations: {detail}.",
        "Find the slow receiver (hookline why, or the overview). Speed it up, pause it, or raise retention.bytes.",
    ),
    "events_refused": Kind(
        "critical",
        "source",
        "{who} gets 503, because the journal is full of queued events: {detail}.",
        "Speed up or pause the slow receiver, raise retention.bytes, or stop the sender that floods the source.",
    ),
    "journal_behind": Kind(
        "critical",
        "partition",
        "{who} of the journal ended before accepted events: {detail}. New events follow after them.",
        "If a copy of the journal has segments with these offsets, stop Hookline and restore them.",
    ),
    "source_silent": Kind(
        "warning",
        "source",
        "{who} is silent: {detail}.",
        "Check that its website, app or server is running and uses a valid write key.",
    ),
    "partition_unowned": Kind(
        "critical",
        "journal",
        "{who} has events that no deliver process reads: {detail}.",
        "Start hookline deliver, or check the logs of running deliver processes.",
    ),
    "disk_nearly_full": Kind(
        "critical",
        "folder",
        "The disk of the data folder is nearly full: {detail}.",
        "Free disk space, or lower retention.bytes. When the disk is full, collect answers 503 until there is space.",
    ),
    "database_damaged": Kind(
        "critical",
        "database",
        "{who} is damaged, and a role that needs it cannot run: {detail}.",
        "Restore the file from a snapshot. hookline doctor names the file and other options.",
    ),
    "database_was_away": Kind(
        "warning",
        "database",
        "{who} could not be reached {detail}.",
        "Check its log for the cause. No acknowledged event is lost, and queued events are being sent.",
        passing=True,
    ),
    "database_unusable": Kind(
        "critical",
        "role",
        "{who} cannot use its database: {detail}.",
        "Run hookline doctor for the next step. Hookline still accepts events and recovers automatically.",
    ),
    "database_went_back": Kind(
        "critical",
        "database",
        "{who} went back in time: {detail}.",
        "Find the cause: a restore, a failover to a server that was behind, or a crash. Check connections, accounts and"
        " tokens. Repeat missing changes, deletion requests and suppressions.",
    ),
    "role_down": Kind(
        "critical",
        "role",
        "{who} is not running: {detail}.",
        "Check its last log lines and start it again. hookline up restarts it automatically.",
    ),
    "role_restarted": Kind(
        "warning",
        "role",
        "{who} ended and was restarted: {detail}.",
        "Check its last log lines before the restart. No acknowledged event is lost.",
    ),
}


def sentence(kind: str, subject: str, detail: str, others: int = 0) -> str:
    """Return what a notice says; ``others`` is how many subjects one notice of ``OTHERS`` stands for."""
    known = KINDS[kind]
    who = f"{known.noun.capitalize()} {subject}" if subject != OTHERS else f"Each of {others} more {known.noun}s"
    return known.sentence.format(who=who, detail=detail[:DETAIL_CHARACTERS_MAX])
