"""The calls of a client while it answers one web request: who made it and from where is filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hookline_client.errors import InvalidCall
from hookline_client.frameworks.web_request import anonymous_id
from hookline_client.log import logger
from hookline_client.messages import from_mapping, view
from hookline_client.verbs import Verbs


class Identity(NamedTuple):
    """Whom the request is from. None is not known."""

    user_id: object = None
    anonymous_id: str | None = None


def identity_of(user_id: Callable[[], object], anonymous_cookie: str | None) -> Callable[[], Identity]:
    """Find out lazily, and once, whom a request is from: the application's user, the browser's anonymous id, or both.

    Without either there is a new anonymous id, so that the calls of one request belong together.
    """
    found: list[Identity] = []

    def identity() -> Identity:
        if not found:
            user = user_id()
            known = anonymous_cookie or user is None
            found.append(Identity(user, anonymous_id(anonymous_cookie) if known else None))
        return found[0]

    return identity


class RequestCalls(Verbs):
    """``client`` with what is known of a request.

    A call that names neither a user nor an anonymous id is from the one who made the request; one that names somebody
    is left as it is. So the strings of ``page`` and ``screen`` are never a user: ``page("Home")``, ``page("Docs",
    "Install")``. The request's context is laid under the context of the call.
    """

    def __init__(self, client: Verbs, identity: Callable[[], Identity], context: Mapping[str, Any]) -> None:
        self._client = client
        self._identity = identity
        self._context = context

    def _call(self, kind: str, given: tuple[object, ...], fields: dict[str, Any]) -> str | None:
        try:
            named = _named(given, fields)
        except InvalidCall:  # the client says what is wrong
            return self._client._call(kind, given, fields)
        if not named.get("userId") and (kind == "alias" or not named.get("anonymousId")):
            named.update(self._from_request(kind))
        own = named.get("context")
        if own is None or isinstance(own, Mapping):
            named["context"] = {**self._context, **(own or {})}
        return self._client._call(kind, (), named)

    def _from_request(self, kind: str) -> dict[str, object]:
        try:
            identity = self._identity()
        except Exception:  # noqa: BLE001 - the application's code, and a call never raises; told to the log
            logger().exception("whom a request is from could not be found out")
            identity = Identity()
        known = {"userId": identity.user_id, "anonymousId": None if kind == "alias" else identity.anonymous_id}
        return {name: value for name, value in known.items() if value is not None}


def _named(given: tuple[object, ...], fields: dict[str, Any]) -> dict[str, Any]:
    named = {name: value for name, value in fields.items() if value is not None}
    if not given:
        return named
    if isinstance(given[0], Mapping):
        return {**from_mapping(given[0]), **named}
    return {**named, **view(given, {"userId": True, **named})}
