"""``ETag`` and ``If-Match`` (RFC 9110): a change counts only if the object is still as the caller has seen it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from litestar import Response

from hookline.control.call import current_call
from hookline.control.problem import Problem

T = TypeVar("T")
_TAG_CHARACTERS = 16


def etag_of(value: Any) -> str:
    """Return the tag of anything that JSON can hold."""
    return f'"{sha256(msgspec.json.encode(value)).hexdigest()[:_TAG_CHARACTERS]}"'


def tagged(body: T, etag: str, status: int = 200, headers: dict[str, str] | None = None) -> Response[T]:
    """Return an answer that says which state of the object it shows."""
    return Response(body, status_code=status, headers={"ETag": etag, **(headers or {})})


def has_condition() -> bool:
    """Return whether the request says which state of the object it is meant for."""
    return _condition() is not None


def require_match(etag: str | None) -> None:
    """Raise Problem (412) when the request is meant for another state of the object; None: there is no object."""
    wanted = _condition()
    if wanted is None:
        return
    tags = [tag.strip() for tag in wanted.split(",")]
    if etag is None or not ("*" in tags or etag in tags):
        detail = "This was changed meanwhile; read it again and repeat the change on what it is now."
        raise Problem(412, "changed_meanwhile", detail)


def _condition() -> str | None:
    call = current_call()
    return None if call is None else call.headers.get("if-match")
