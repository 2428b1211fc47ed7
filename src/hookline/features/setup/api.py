"""``POST /api/v1/sources/{id}/test-event``: one real event, sent to the collection API as a client would."""

from __future__ import annotations

import asyncio
import http.client
from base64 import b64encode
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from litestar import post

from hookline.api.handlers import FromServices, problems
from hookline.api.listing import Id
from hookline.api.problem import Problem, not_found
from hookline.connections.model import Source
from hookline.features.setup.snippets import collect_url

EVENT = "Test Event"
ANONYMOUS_ID = "hookline-test"
"""No user id: the event counts as nobody's, and meets no condition about users."""
ANSWER_SECONDS_MAX = 5.0
ANSWER_BYTES_MAX = 65_536
KEY_UNKNOWN_SECONDS_MAX = 3.0
"""How long a key may be unknown to collect: it hears of a new source a moment after control has it."""
PAUSE_SECONDS = 0.25


class TestEventSent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The event that the collection API accepted."""

    source: str
    message_id: str


class _Answer(msgspec.Struct):
    message: str = ""


@post("/sources/{id:str}/test-event", status_code=200, needs="editor", responses=problems(404, 409))
async def send_test_event(services: FromServices, object_id: Id) -> TestEventSent:
    """Send one track call to the collection API with the source's write key. It is a real event: Hookline stores it and
    sends it to the destinations of the source."""
    stored = services.store.source(object_id)
    if stored is None:
        raise not_found("source", object_id)
    url, key, message_id = collect_url(services.settings), _usable_key(stored.object), str(uuid4())
    body = msgspec.json.encode({"messageId": message_id, "anonymousId": ANONYMOUS_ID, "event": EVENT})
    deadline = asyncio.get_running_loop().time() + KEY_UNKNOWN_SECONDS_MAX
    while True:
        try:
            status, answer = await asyncio.to_thread(_post, f"{url}/v1/track", key, body)
        except (OSError, http.client.HTTPException) as error:
            detail = (
                f"The collection API does not answer at {url} ({error or type(error).__name__}). Check that collect"
                " runs and that collect.public_url is the address clients use (hookline doctor looks at both), or run"
                " one of the lines below where your events come from."
            )
            raise Problem(409, "collect_unreachable", detail) from None
        if status != 401 or asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(PAUSE_SECONDS)
    if status != 200:
        raise Problem(409, "collect_refused", _refused(url, status, answer))
    return TestEventSent(source=object_id, message_id=message_id)


def _usable_key(source: Source) -> str:
    if not source.enabled:
        raise Problem(409, "source_disabled", f"The source {source.id} is disabled. Enable it first.")
    if not source.write_keys:
        raise Problem(409, "no_write_key", f"The source {source.id} has no write key. Create one on its page.")
    return source.write_keys[0]


def _post(url: str, key: str, body: bytes) -> tuple[int, bytes]:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=ANSWER_SECONDS_MAX)
    basic = b64encode(f"{key}:".encode()).decode()
    try:
        connection.request(
            "POST", parts.path, body, {"Authorization": f"Basic {basic}", "Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()


def _refused(url: str, status: int, answer: bytes) -> str:
    try:
        said = msgspec.json.decode(answer, type=_Answer).message
    except msgspec.MsgspecError:
        return (
            f"What answers at {url} with {status} is not a Hookline collection API. Set collect.public_url to the"
            " address that clients use."
        )
    return f"The collection API at {url} refused the event ({status}): {said}"
