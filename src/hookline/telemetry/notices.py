"""Every kind of notice about the system itself: how bad it is, its sentence and the next step, in one table; and the
triggers, the kinds in groups that notification rules choose from.

``{who}`` in a sentence is what the notice is about, ``{detail}`` what was found. The conditions of ``features/notices``
open and resolve them; a new kind is one line here, its place in a trigger, and a condition that finds it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple
from urllib.parse import quote

Severity = Literal["info", "warning", "critical"]

OTHERS = "*"
"""The subject of the one notice that stands for all beyond the bound of a kind."""
EVERY = "of any name"
"""The subject of a notice that is about all of its kind."""
DETAIL_CHARACTERS_MAX = 500


class Kind(NamedTuple):
    """One kind. ``passing`` notices tell of a moment and are resolved at once; ``followed_by`` names the one that is
    told when a notice of this kind is resolved and its destination is well again. ``page`` is the page where the next
    step is taken: the words of its button, and its path with ``{id}`` for the subject."""

    severity: Severity
    noun: str
    sentence: str
    next_step: str
    passing: bool = False
    followed_by: str | None = None
    page: tuple[str, str] | None = None


KINDS: dict[str, Kind] = {
    "destination_paused": Kind(
        "info",
        "destination",
        "{who} is paused {detail}. Its events are queued. Nothing is lost while retention lasts.",
        "Resume it (hookline resume) when its receiver accepts events again.",
        followed_by="destination_resumed",
        page=("Open the destination", "/destinations/{id}"),
    ),
    "destination_gone": Kind(
        "critical",
        "destination",
        "{who} was paused by Hookline {detail}. Its events are queued. Nothing is lost while retention lasts.",
        "Correct its URLs, then resume it (hookline resume). Or disable it.",
        followed_by="destination_resumed",
        page=("Open the destination", "/destinations/{id}"),
    ),
    "destination_resumed": Kind(
        "info",
        "destination",
        "{who} is no longer paused.",
        "Nothing to do. Queued events are being sent.",
        passing=True,
        page=("Open the destination", "/destinations/{id}"),
    ),
    "destination_breaker_open": Kind(
        "warning",
        "destination",
        "{who} keeps failing: {detail}. Its events are queued. Nothing is lost while retention lasts.",
        "Find the cause in its attempts, and repair the receiver. Hookline retries by itself.",
        followed_by="destination_recovered",
        page=("See its attempts", "/destinations/{id}/attempts"),
    ),
    "destination_recovered": Kind(
        "info",
        "destination",
        "{who} accepts events again: its breaker is closed.",
        "Nothing to do. Queued events are being sent.",
        passing=True,
        page=("Open the destination", "/destinations/{id}"),
    ),
    "destination_schema_changed": Kind(
        "info",
        "destination",
        "{who} changed what it writes to: {detail}",
        "Nothing to do if this is meant. If a name is a spelling mistake, correct the sender.",
        passing=True,
        page=("Open the destination", "/destinations/{id}"),
    ),
    "dead_letters_growing": Kind(
        "warning",
        "destination",
        "{who} has failing events: {detail}.",
        "Find the cause in its dead letters, repair it, then retry them.",
        page=("Open its dead letters", "/destinations/{id}/dead-letters"),
    ),
    "destination_degraded": Kind(
        "warning",
        "destination",
        "{who} fails often: {detail}. Failed requests are retried.",
        "Find the cause in its attempts, and repair the receiver.",
        page=("See its attempts", "/destinations/{id}/attempts"),
    ),
    "backlog_old": Kind(
        "warning",
        "destination",
        "{who} is behind: {detail}.",
        "Speed up its receiver, or raise its rate limits. Queued events are sent in order; nothing is lost.",
        page=("Open the destination", "/destinations/{id}"),
    ),
    "deletion_not_acknowledged": Kind(
        "critical",
        "destination",
        "{who} does not acknowledge deletions: {detail}.",
        "Repair its receiver. For 30 days, Hookline sends each message again an hour after its last try has ended"
        " (hookline deletion-requests).",
        page=("Open deletion requests", "/deletion-requests"),
    ),
    "client_certificate_expiring": Kind(
        "warning",
        "destination",
        "{who} uses a client certificate that expires soon: {detail}.",
        "Renew it and put it where clientCertificate and clientKey point. New connections use it automatically.",
        page=("Open its settings", "/destinations/{id}/settings"),
    ),
    "client_certificate_unusable": Kind(
        "critical",
        "destination",
        "{who} cannot use its client certificate: {detail}.",
        "Correct it. New connections use it automatically, and queued events are sent then.",
        page=("Open its settings", "/destinations/{id}/settings"),
    ),
    "retention_near": Kind(
        "critical",
        "destination",
        "{who} is about to lose events to retention: {detail}.",
        "Repair its receiver, or raise retention.events and retention.bytes until the queue is empty.",
        page=("Open the destination", "/destinations/{id}"),
    ),
    "retention_passed": Kind(
        "critical",
        "destination",
        "{who} has lost events to retention: {detail}.",
        "These events are gone. Raise retention.events or retention.bytes before the next long outage.",
        page=("Open the destination", "/destinations/{id}"),
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
        page=("Open destinations", "/destinations"),
    ),
    "events_refused": Kind(
        "critical",
        "source",
        "{who} gets 503, because the journal is full of queued events: {detail}.",
        "Speed up or pause the slow receiver, raise retention.bytes, or stop the sender that floods the source.",
        page=("Open destinations", "/destinations"),
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
        page=("Open the source", "/sources/{id}"),
    ),
    "events_rejected": Kind(
        "warning",
        "source",
        "{who} sends items that are rejected: {detail}.",
        "Find the reason in its rejected items, and correct the sender. Rejected items are never delivered.",
        page=("Open rejected items", "/sources/{id}/rejected"),
    ),
    "event_name_new": Kind(
        "info",
        "source",
        "{who} sent event names that it never sent before: {detail}.",
        "Check that they are intended, and not a spelling mistake in the sender.",
        passing=True,
        page=("Open its schema", "/sources/{id}/schema"),
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
    "connections_file_not_applied": Kind(
        "critical",
        "connections file",
        "{who} was not applied at the last start; the connections are as they were before. {detail}.",
        "Make the file and the connections agree (hookline diff shows what differs), then apply it (hookline apply).",
    ),
    "notification_failing": Kind(
        "warning",
        "notification",
        "{who} cannot reach people: {detail}.",
        "Correct the address or the mail server, then send a test.",
        page=("Open the notification", "/settings/notifications/{id}"),
    ),
}


ThresholdName = Literal["for", "count", "failedShare"]
About = Literal["destination", "source", "service"]


class Trigger(NamedTuple):
    """One thing that a notification rule may wait for: the kinds of notice it stands for, in plain words.

    ``thresholds`` are those that mean something for it. ``about`` says which filter of a rule narrows it.
    """

    title: str
    explains: str
    about: About
    kinds: tuple[str, ...]
    thresholds: tuple[ThresholdName, ...] = ("for",)


TRIGGERS: dict[str, Trigger] = {
    "destination_failing": Trigger(
        "A destination fails",
        "Its receiver does not answer, answers with errors, or answered 410 Gone.",
        "destination",
        ("destination_breaker_open", "destination_gone", "destination_degraded"),
        ("for", "failedShare"),
    ),
    "dead_letters": Trigger(
        "Events are not delivered",
        "Events failed for good or expired, and became dead letters.",
        "destination",
        ("dead_letters_growing",),
        ("for", "count"),
    ),
    "backlog_age": Trigger(
        "A destination is behind",
        "Its oldest queued event has waited too long, and it is not paused.",
        "destination",
        ("backlog_old",),
    ),
    "destination_paused": Trigger(
        "A destination is paused",
        "A person paused it. Its events wait until somebody resumes it.",
        "destination",
        ("destination_paused",),
    ),
    "schema_changed": Trigger(
        "A destination's tables change",
        "A destination of a kind such as postgres made a table or a column, or could not.",
        "destination",
        ("destination_schema_changed",),
        (),
    ),
    "certificate_expiring": Trigger(
        "A client certificate expires",
        "The certificate that a destination shows its receiver expires soon, or cannot be used.",
        "destination",
        ("client_certificate_expiring", "client_certificate_unusable"),
    ),
    "deletion_stuck": Trigger(
        "A deletion is stuck",
        "A destination does not acknowledge messages to delete a person.",
        "destination",
        ("deletion_not_acknowledged",),
    ),
    "retention_near": Trigger(
        "Retention removes queued events",
        "Queued events of a destination are about to be removed, or were removed.",
        "destination",
        ("retention_near", "retention_passed"),
    ),
    "rejected_events": Trigger(
        "Items are rejected",
        "A source sends items that are not valid events. They are never delivered.",
        "source",
        ("events_rejected",),
        ("for", "count"),
    ),
    "source_silent": Trigger(
        "A source is silent",
        "A source that sent events before sends none.",
        "source",
        ("source_silent",),
    ),
    "new_event_name": Trigger(
        "A new event name",
        "A source sent an event name that it never sent before.",
        "source",
        ("event_name_new",),
        (),
    ),
    "events_refused": Trigger(
        "Events are refused",
        "The journal is full or nearly full. When it is full, sources get 503.",
        "service",
        ("journal_filling", "events_refused"),
    ),
    "disk_low": Trigger(
        "The disk is nearly full",
        "The disk of the data folder has little room left.",
        "service",
        ("disk_nearly_full",),
    ),
    "service_failing": Trigger(
        "A part of Hookline fails",
        "A role is down or was restarted, partitions have no owner, or the connections file was not applied.",
        "service",
        ("role_down", "role_restarted", "partition_unowned", "connections_file_not_applied"),
    ),
    "database_failing": Trigger(
        "A database fails",
        "A database is away, damaged, unusable, or went back in time.",
        "service",
        ("database_damaged", "database_was_away", "database_unusable", "database_went_back"),
    ),
    "journal_damaged": Trigger(
        "The journal is damaged",
        "Stored events cannot be read, or are gone.",
        "service",
        ("journal_damaged", "journal_behind"),
    ),
    "notification_failing": Trigger(
        "A notification fails",
        "Another notification reaches nobody: its mail server, Slack or webhook refuses it.",
        "service",
        ("notification_failing",),
    ),
}
"""Every kind that is worth a message is in one of them; recoveries are said by the end of what they follow."""
TRIGGER_OF: dict[str, str] = {kind: name for name, trigger in TRIGGERS.items() for kind in trigger.kinds}


def headline(kind: str, subject: str, others: int = 0) -> str:
    """Return what a notice says before its details, such as ``Destination crm keeps failing``."""
    before = KINDS[kind].sentence.partition("{detail}")[0].rstrip(" :.")
    return before.partition(". ")[0].format(who=who(kind, subject, others))


def who(kind: str, subject: str, others: int = 0) -> str:
    """Return what a notice is about, in words."""
    noun = KINDS[kind].noun
    if subject == EVERY:
        return f"Every {noun}"
    return f"{noun[:1].upper()}{noun[1:]} {subject}" if subject != OTHERS else f"Each of {others} more {noun}s"


def page_of(kind: str, subject: str) -> str:
    """Return the page where the next step of a notice is taken, empty where there is none."""
    known = KINDS.get(kind)
    if known is None or known.page is None:
        return ""
    path = known.page[1]
    if "{id}" in path and subject == OTHERS:
        return f"/{path.split('/')[1]}"
    return path.replace("{id}", quote(subject, safe=""))


def sentence(kind: str, subject: str, detail: str, others: int = 0) -> str:
    """Return what a notice says; ``others`` is how many subjects one notice of ``OTHERS`` stands for."""
    known = KINDS[kind]
    return known.sentence.format(who=who(kind, subject, others), detail=detail[:DETAIL_CHARACTERS_MAX])
