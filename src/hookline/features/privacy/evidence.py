"""The evidence of a deletion request: what was affected, when messages were delivered, what was erased; no id."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hookline.api.services import Services
from hookline.database.installation import LOCAL
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.journal import still_damaged
from hookline.features.privacy.service import delete_messages, deletion_requests
from hookline.journal.damaged import noted_damage
from hookline.journal.opening import FOLDER
from hookline.journal.port import JournalAway
from hookline.outcomes.outcome import DeliveryStatus
from hookline.privacy.model import Action, DeletionRequest, Erased, Message, Receipt, State, request_id

DIGEST = (
    "BLAKE2b-256 of the user id in UTF-8, keyed (RFC 7693) with the file privacy-key of the data folder, or the table"
    " privacy_key of PostgreSQL, hexadecimal"
)
OVERWRITTEN = "overwritten in place"
ON_KAFKA = "hidden from every reader; the bytes stay in the topic until retention removes them"
IN_POSTGRESQL = (
    "rows deleted; the bytes stay in PostgreSQL's files until its vacuum has removed them and their space was reused,"
    " in its write-ahead log until that is recycled, and in its backups and replicas"
)
"""How events and rows went, by where they were."""
DAMAGE_UNKNOWN = (
    "which stored events are damaged is not known, because the file journal/damaged of the data folder cannot be read"
    " ({}). Let the user that Hookline runs as read it, then take this report again"
)


class Acknowledgement(msgspec.Struct, frozen=True, rename="camel"):
    """The delete message at one destination: when it was ``delivered``, that it is ``open``, or why it was not
    delivered. ``filtered``: the destination has no delete message, so nothing was sent and the person is to be deleted
    there by hand; ``reason`` says so. ``remark``: what Hookline erased there itself, of kinds such as ``files`` and
    ``postgres``."""

    destination: str
    status: str
    at: str | None
    reason: str | None
    remark: str | None


OPEN = "open"
BY_HAND = DeliveryStatus.FILTERED
"""The status of a delete message that the destination has no request for: filters keep none of them away."""
NOTHING_SENT = "this destination has no delete message, so nothing was sent. Delete the person in its service by hand"
"""For messages that were closed before their reasons were kept."""


class AffectedSource(msgspec.Struct, frozen=True, rename="camel"):
    """A source that had data of the person. ``events`` were stored; 0 means that only traits of expired events were
    left. ``tries`` is how often its delete message was sent."""

    source: str
    events: int
    tries: int
    destinations: Sequence[Acknowledgement]


class PersonEvidence(msgspec.Struct, frozen=True, rename="camel"):
    """One person. ``digest`` stands for the given id; ``identities`` is the number of ids found, including it."""

    digest: str
    identities: int
    events: int
    sources: Sequence[AffectedSource]


class UnreadableEvents(msgspec.Struct, frozen=True, rename="camel"):
    """Stored events that are damaged, from the offset ``first`` of a ``partition`` on; ``events`` is how many at most.
    Whose they are cannot be known, and nothing of them was erased, unless it was before they were damaged. ``foundAt``
    is when that was first seen."""

    partition: int
    first: int
    events: int
    found_at: str


class DeletionEvidence(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The report of one request. ``complete`` is true once nothing is left to do. ``journal`` and ``databases``
    describe how the stored data was erased. ``unreadable`` are the events that are damaged now, and still kept: their
    bytes stay until retention removes them. ``damageUnknown`` says why these are not known, and what to do; null where
    they are."""

    request: str
    action: Action
    state: State
    complete: bool
    author: str
    requested_at: str
    done_at: str | None
    digest: str = DIGEST
    journal: str
    databases: str
    erased: Erased
    unreadable: Sequence[UnreadableEvents]
    damage_unknown: str | None = None
    people: Sequence[PersonEvidence]

    @property
    def by_hand(self) -> Sequence[str]:
        """Return the destinations in whose services somebody has to delete by hand."""
        return self._with_status(BY_HAND)

    @property
    def waiting_for(self) -> Sequence[str]:
        """Return the destinations whose receivers have yet to accept a delete message."""
        return self._with_status(OPEN)

    def _with_status(self, status: str) -> Sequence[str]:
        found = (each for person in self.people for source in person.sources for each in source.destinations)
        return sorted({each.destination for each in found if each.status == status})


def evidence_of(services: Services, request: DeletionRequest) -> DeletionEvidence:
    """Return the report as of now; a thousand people take too long for an event loop."""
    by_person: dict[int, list[AffectedSource]] = {}
    receipts = delete_messages(services).receipts(request.number)
    for message in delete_messages(services).of(request.number):
        by_person.setdefault(message.number, []).append(_source(message, receipts.get(message.id, ())))
    people = deletion_requests(services).people(request.number)
    unreadable: Sequence[UnreadableEvents] = ()
    damage_unknown = None
    if request.action != "suppress":
        try:
            unreadable = _unreadable(services.settings.data_path / FOLDER)
        except OSError as error:
            damage_unknown = DAMAGE_UNKNOWN.format(error.strerror or error)
    return DeletionEvidence(
        request=request_id(request.number),
        action=request.action,
        state=request.state,
        complete=request.state == "done",
        author=request.author,
        requested_at=iso(request.at_ms),
        done_at=None if request.done_ms is None else iso(request.done_ms),
        journal=OVERWRITTEN if services.settings.journal.is_local else ON_KAFKA,
        databases=OVERWRITTEN if services.settings.database.url == LOCAL else IN_POSTGRESQL,
        erased=deletion_requests(services).erased(request.number),
        unreadable=unreadable,
        damage_unknown=damage_unknown,
        people=[
            PersonEvidence(each.digest.hex(), each.identity_count, each.events, by_person.get(each.number, []))
            for each in people
        ],
    )


def _unreadable(journal: Path) -> list[UnreadableEvents]:
    """Return what is damaged; what is missing altogether has no bytes, and is not among it."""
    noted = [each for each in noted_damage(journal) if not each.is_missing]
    with suppress(JournalAway):  # what was noted is taken for damaged until brokers answer
        noted = still_damaged(journal, noted)
    return [UnreadableEvents(each.partition, each.first, each.events, iso(each.at)) for each in noted]


def _source(message: Message, receipts: Sequence[Receipt]) -> AffectedSource:
    settled = [
        Acknowledgement(each.destination, each.status, iso(each.at_ms), _reason(each), each.remark) for each in receipts
    ]
    if message.state != "closed":
        known = {each.destination for each in receipts}
        settled += [Acknowledgement(id, OPEN, None, None, None) for id in message.destinations if id not in known]
    sent = message.tries - (message.state == "planned")  # the try that is planned is yet to come
    return AffectedSource(message.source, message.events, sent if message.first_ms else 0, settled)


def _reason(receipt: Receipt) -> str | None:
    return receipt.reason or (NOTHING_SENT if receipt.status == BY_HAND else None)
