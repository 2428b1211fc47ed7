"""One request while it is served: its id, who makes it, and what it changed.

It is found through a context variable, so that what is done deep inside is put down to the one who asked for it. Work
that no request asked for has none.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from functools import cached_property
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from hookline.api.audit.log import AuditChange
from hookline.api.auth.identity import Identity, identify
from hookline.api.auth.service import session_store, token_store
from hookline.api.caller import ADMIN_TOKEN, HOOKLINE, Caller
from hookline.api.services import Services, list_reader, part
from hookline.client_address import Network, client_address

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

T = TypeVar("T")

REQUEST_ID = "x-request-id"
PARTS_HEADER = "x-parts"
"""With it an open page asks by itself, as for its own live parts; a page without it is one that a person opens."""
EVENT_STREAM = "text/event-stream"
"""What a browser accepts when it opens a stream, and opens it again by itself."""

_GIVEN_ID = re.compile(r"[A-Za-z0-9._~:-]{1,128}", re.ASCII)
_ID_BYTES = 12
_current: ContextVar[Call | None] = ContextVar("call", default=None)


class Call:
    """``versions`` of the connections that it made, and ``changes`` to anything else, are for the audit log."""

    def __init__(self, services: Services, scope: Scope, trusted: Sequence[Network] = ()) -> None:
        self.services = services
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = self.headers.get(REQUEST_ID, "")
        self.id = given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(_ID_BYTES)
        client = scope.get("client")
        self.address = client_address(client[0], scope["headers"], trusted) if client else "unknown"
        self.versions: list[int] = []
        self.changes: list[AuditChange] = []
        self.target: str | None = None
        self.only_looked = False
        """Said by a handler that changed nothing this time, as in a dry run, or nothing that anybody else sees. What
        was noted as changed is on record all the same."""
        self.leaves_open = False
        """Said with a failure of which nobody knows what was done before it."""

    @cached_property
    def identity(self) -> Identity:
        """Return who calls, or why nobody is known to."""
        authorization = self.headers.get("authorization", "")
        return identify(
            self.services, authorization, self.session_key, self.address, self.id, is_own_action=not self._is_poll
        )

    @property
    def _is_poll(self) -> bool:
        """Return whether an open page asks by itself: that is no use of a session, which else would never idle out."""
        return PARTS_HEADER in self.headers or self.headers.get("accept") == EVENT_STREAM

    @property
    def caller(self) -> Caller | None:
        """Return who calls, None when nobody is known to."""
        return self.identity.caller

    def still_known(self) -> bool:
        """Return whether the caller would be let in now: what takes long asks again. It is no use of a session."""
        caller = self.caller
        if caller is None:
            return False
        if caller.session:
            return session_store(self.services).find(self.session_key, in_use=False) is not None
        if caller.kind == "token" and caller.id is not None:
            token = token_store(self.services).get(caller.id)
            return token is not None and not token_store(self.services).has_expired(token)
        return True

    @property
    def public_origin(self) -> str:
        """Scheme, host and port of ``control.public_url`` as a browser says them, empty where it is not set."""
        public = urlsplit(self.services.settings.control.public_url or "")
        return f"{public.scheme}://{public.netloc}".lower() if public.netloc else ""

    @cached_property
    def session_key(self) -> str | None:
        """Return what the session cookie holds. Those beside it are of others on the host or its domain, and may be
        anything: the standard library's parser takes none where one of them is of no right form."""
        pairs = (each.strip().partition("=") for each in self.headers.get("cookie", "").split(";"))
        return {name: value for name, _, value in pairs}.get(session_store(self.services).cookie_name)

    @property
    def has_changed(self) -> bool:
        """Return whether something was changed, whatever came after it."""
        return bool(self.versions) or self.target is not None

    def changed(self, target: str, *changes: AuditChange) -> None:
        """Say what was changed, where it is not a version of the connections."""
        self.target = target
        self.changes += changes


def current_call() -> Call | None:
    """Return the request being served, None outside of one."""
    return _current.get()


def the_call() -> Call:
    """Return the request being served, for handlers, which run within one."""
    call = _current.get()
    assert call is not None, "a handler runs within a call"
    return call


def the_caller() -> Caller:
    """Return who makes the request, for handlers of routes that let nobody unknown in."""
    caller = the_call().caller
    assert caller is not None, "the guard lets nobody unknown in"
    return caller


def current_caller() -> Caller | None:
    """Return who makes the request being served, None when nobody is known to."""
    call = _current.get()
    return None if call is None else call.caller


def current_author() -> str:
    """Whom a change is put down to."""
    call = _current.get()
    if call is None:
        return HOOKLINE
    return ADMIN_TOKEN if call.caller is None else call.caller.author


def note_version(version: int) -> None:
    """The request being served made a version of the connections."""
    call = _current.get()
    if call is not None:
        call.versions.append(version)


def note_unchanged() -> None:
    """The request being served left all as it was, save what is noted as changed: it is not for the audit log, which
    anybody could else fill with the same request."""
    call = _current.get()
    if call is not None:
        call.only_looked = True


def may_refer() -> bool:
    """Return whether the change being made may have a secret sent that it only refers to: an owner's, or nobody's."""
    call = _current.get()
    return call is None or (call.caller is not None and call.caller.may("owner"))


class CallersTurns:
    """Has a caller's own calls wait for each other where all callers wait for one thread: so many slow ones of one keep
    the others waiting no longer than one does."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def mine(self) -> AbstractAsyncContextManager[object]:
        """Return the turn of who makes the request being served; work that no request asked for needs none."""
        caller = current_caller()
        return nullcontext() if caller is None else self._locks.setdefault(caller.key, asyncio.Lock())


class ListThread:
    """Reads the lists and counts that may look at every row. They wait for one lock anyway (``list_reader``): on one
    thread of their own, many slow ones leave the threads that all else shares free."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lists")
        self._turns = CallersTurns()

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Return what some work comes to, when its caller's earlier ones are done."""
        async with self._turns.mine():
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    def close(self) -> None:
        """Stop reading; idempotent."""
        self._thread.shutdown(wait=True, cancel_futures=True)


@part
def list_thread(services: Services) -> ListThread:
    """Return what reads with ``list_reader``, which is put away after it."""
    list_reader(services)
    return ListThread()


def is_http(scope: Scope) -> bool:
    """Return whether it is a request, and not a socket or the server's own life."""
    return str(scope["type"]) == "http"


class Calls:
    """ASGI wrapper: every request becomes a call, and its answer says its id (``X-Request-Id``)."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._trusted = [ip_network(text) for text in services.settings.collect.trusted_proxies]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request as a call."""
        if not is_http(scope):
            await self._app(scope, receive, send)
            return
        call = Call(self._services, scope, self._trusted)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID.encode(), call.id.encode())]
            await send(message)

        # A request has a task of its own, and so a context of its own.
        _current.set(call)
        await self._app(scope, receive, send_with_id)
