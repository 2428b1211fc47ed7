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
        "{who} is paused {detail}. Its events wait; nothing is lost while retention lasts.",
        "Resume it (hookline resume) when its receiver can take events again.",
        followed_by="destination_resumed",
    ),
    "destination_gone": Kind(
        "critical",
        "destination",
        "{who} was paused by Hookline {detail}. Its events wait; nothing is lost while retention lasts.",
        "Correct its URLs and resume it (hookline resume), or disable it.",
        followed_by="destination_resumed",
    ),
    "destination_resumed": Kind(
        "info", "destination", "{who} is no longer paused.", "Nothing to do; what waited is being sent.", passing=True
    ),
    "destination_breaker_open": Kind(
        "warning",
        "destination",
        "{who} keeps failing: {detail}. Its events wait; nothing is lost while retention lasts.",
        "Look at the last attempts (hookline why, or the destination on the first page) and repair the receiver.",
        followed_by="destination_recovered",
    ),
    "destination_recovered": Kind(
        "info",
        "destination",
        "{who} takes events again: its breaker is closed.",
        "Nothing to do; what waited is being sent.",
        passing=True,
    ),
    "dead_letters_growing": Kind(
        "warning",
        "destination",
        "{who} loses events to dead letters: {detail}.",
        "Look at the dead letters' errors (GET /api/v1/dead-letters?destination=ID) and repair what they name.",
    ),
    "deletion_not_acknowledged": Kind(
        "critical",
        "destination",
        "{who} does not acknowledge deletions: {detail}.",
        "Repair its receiver; the messages are sent again every few hours, for 30 days (hookline deletion-requests).",
    ),
    "client_certificate_expiring": Kind(
        "warning",
        "destination",
        "{who} shows its receiver a client certificate that expires soon: {detail}.",
        "Have it renewed and put it where clientCertificate and clientKey lead; new connections show it by themselves.",
    ),
    "client_certificate_unusable": Kind(
        "critical",
        "destination",
        "{who} cannot show its receiver a client certificate: {detail}.",
        "Correct what it says; new connections show the right one by themselves, and what waited is sent then.",
    ),
    "retention_near": Kind(
        "critical",
        "destination",
        "{who} is about to lose events to retention: {detail}.",
        "Repair its receiver, or raise retention.events and retention.bytes until it has caught up.",
    ),
    "retention_passed": Kind(
        "critical",
        "destination",
        "{who} has lost events to retention: {detail}.",
        "Raise retention.events or retention.bytes before the next long outage; these events are gone.",
    ),
    "journal_damaged": Kind(
        "critical",
        "part of the journal's",
        "{who} cannot be read any more; everything else goes on. {detail}.",
        "Check the disk, stop, and put the segments named back from a snapshot if there is one.",
    ),
    "journal_filling": Kind(
        "warning",
        "setting",
        "{who} is nearly spent on events that working destinations still wait for: {detail}.",
        "Find the slow receiver (hookline why, or the first page) and speed it up, pause it, or raise retention.bytes.",
    ),
    "events_refused": Kind(
        "critical",
        "source",
        "{who} is answered 503, for the journal is full of events that wait to be delivered: {detail}.",
        "Find the slow receiver and speed it up or pause it, raise retention.bytes, or stop what floods the source.",
    ),
    "journal_behind": Kind(
        "critical",
        "partition",
        "{who} of the journal ended before events that were taken: {detail}. It goes on behind them.",
        "If a copy of the journal has segments with these offsets, stop Hookline and put them back.",
    ),
    "source_silent": Kind(
        "warning",
        "source",
        "{who} is silent: {detail}.",
        "Check that its website, app or server still runs and uses an enabled write key.",
    ),
    "partition_unowned": Kind(
        "critical",
        "journal",
        "{who} has events that no deliver process takes: {detail}.",
        "Start hookline deliver, or see in the logs of those that run why they take no partition.",
    ),
    "disk_nearly_full": Kind(
        "critical",
        "folder",
        "The disk of the data folder is nearly full: {detail}.",
        "Make room, or lower retention.bytes; when it is full, events are answered 503 until there is room.",
    ),
    "database_damaged": Kind(
        "critical",
        "database",
        "{who} is damaged, and a role that needs it cannot work: {detail}.",
        "Put the file back from a snapshot (hookline doctor says which, and what else can be done).",
    ),
    "database_was_away": Kind(
        "warning",
        "database",
        "{who} could not be reached {detail}.",
        "Look at its own log for why; nothing acknowledged is lost, and what waited is being sent.",
        passing=True,
    ),
    "database_unusable": Kind(
        "critical",
        "role",
        "{who} cannot use its databases as it has to: {detail}.",
        "hookline doctor says what to do. Events are accepted meanwhile, and all goes on by itself when it is over.",
    ),
    "database_went_back": Kind(
        "critical",
        "database",
        "{who} went back in time: {detail}.",
        "Find out why: a restore, a failover to a server that was behind, or a crash. Look at connections, accounts and"
        " tokens, and make anew the changes, deletion requests and suppressions that are missing.",
    ),
    "role_down": Kind(
        "critical",
        "role",
        "{who} does not run: {detail}.",
        "Look at its last log lines and start it again (hookline up does so by itself).",
    ),
    "role_restarted": Kind(
        "warning",
        "role",
        "{who} ended and was started again: {detail}.",
        "Look at its last log lines before the restart; nothing acknowledged is lost.",
    ),
}


def sentence(kind: str, subject: str, detail: str, others: int = 0) -> str:
    """What a notice says; ``others`` is how many subjects one notice of ``OTHERS`` stands for."""
    known = KINDS[kind]
    who = f"{known.noun.capitalize()} {subject}" if subject != OTHERS else f"Each of {others} more {known.noun}s"
    return known.sentence.format(who=who, detail=detail[:DETAIL_CHARACTERS_MAX])
