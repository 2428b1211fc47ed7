"""The identify call that tells one person's membership or computed value (SPEC 2.4 and 6)."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import msgspec

from hookline.events.fingerprint import fingerprint
from hookline.events.timestamps import iso
from hookline.journal.record import FORMAT_VERSION, Record
from hookline.profiles.definition import Ready

SOURCE = "profiles"
"""What stands as the source of what nobody sent."""
_KEPT = 64


def message(
    ready: Ready, number: int, user_id: str, value: str, at_ms: int, now_ms: int, to: tuple[str, ...]
) -> Record:
    """The record of one message of a sync at ``at_ms``; the same for the same sync and user, messageId included."""
    kind, id = ready.key
    state = blake2b(f"{kind}\0{id}\0{number}\0{user_id}".encode("utf-8", "surrogatepass"), digest_size=16)
    message_id = f"{kind}-{state.hexdigest()}"
    body = b'{"type":"identify","userId":%b,"traits":{%b:%b},%b}' % (
        msgspec.json.encode(user_id),
        msgspec.json.encode(ready.trait),
        value.encode(),
        _behind(kind, id, ready.trait, ready.published),
    )
    return Record(
        FORMAT_VERSION,
        False,
        now_ms,
        SOURCE,
        "identify",
        message_id,
        fingerprint(SOURCE, message_id),
        user_id,
        iso(at_ms),
        kind,
        body,
        to=to,
    )


@lru_cache(maxsize=_KEPT)
def _behind(kind: str, id: str, trait: str, published: tuple[str, ...]) -> bytes:
    """The context, as Segment names it so that receivers of Personas need not change, and the destination selection
    (SPEC 2.4): in the context as well, which receivers are sent."""
    selection = {"All": False} | dict.fromkeys(published, True)
    personas = {"computation_class": kind, "computation_key": trait, "computation_id": id}
    context = {"personas": personas, "integrations": selection}
    return msgspec.json.encode({"context": context, "integrations": selection})[1:-1]
