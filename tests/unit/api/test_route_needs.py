"""Every route of the real application against every kind of caller."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from litestar import Litestar, get, post

from hookline.api.auth.access import UndeclaredRoute, check_needs, needs_of
from hookline.api.auth.service import account_store, session_store, token_store
from hookline.api.caller import NEEDS as LADDER
from hookline.api.caller import ROLE_OF_SCOPE, ROLES, SCOPES
from hookline.control.app import api_routes, application
from hookline.control.pages import routes
from tests.unit.api.route_needs import NEEDS
from tests.unit.control.running import TOKEN, Running

OWN = {"Sec-Fetch-Site": "same-origin"}
CALLERS = ("anonymous", *ROLES, *(f"token:{scope}" for scope in SCOPES), "admin token")


def credentials(control: Running, caller: str) -> dict[str, str]:
    """The headers of a caller; sessions and tokens are made anew, since a call may end them."""
    services = control.services
    if caller == "admin token":
        return {"Authorization": f"Bearer {TOKEN}"}
    if caller in ROLES:
        accounts = {account.name: account.id for account in account_store(services).page(100)}
        key = session_store(services).open(accounts[caller])
        return {"Cookie": f"{session_store(services).cookie_name}={key}", **OWN}
    if caller.startswith("token:"):
        for token in token_store(services).page(100):
            token_store(services).revoke(token.id)
        scope = next(each for each in SCOPES if caller.endswith(each))
        return {"Authorization": f"Bearer {token_store(services).create('t', scope, None, 'test')[1]}"}
    return {}


def expected(route: str, caller: str) -> Iterator[int]:
    """The statuses that say whether the caller is let in; none: anything but 401 and 403."""
    need, page = NEEDS[route], "/api/" not in route
    if need == "open":
        return
    role = {**{role: role for role in ROLES}, **{f"token:{s}": r for s, r in ROLE_OF_SCOPE.items()}}.get(caller)
    if caller == "anonymous" or (page and caller not in ROLES):
        yield 303 if page else 401
    elif role is not None and LADDER.index(role) < LADDER.index(need):
        yield 403


def test_every_route_has_its_line() -> None:
    """A route that is new, gone, or needs something else than its line says is noticed here."""
    found = [each for part in (api_routes(), routes()) for each in needs_of(application(part))]
    declared = {f"{method} {path}": need for method, path, need in found}
    assert declared == NEEDS


@pytest.fixture(scope="module")
def peopled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Control with an account of each role."""
    with Running(tmp_path_factory.mktemp("peopled") / "data") as running:
        accounts = account_store(running.services)
        accounts.create_first("owner", "hash")
        accounts.invite("editor", "editor")
        accounts.invite("viewer", "viewer")
        yield running


@pytest.mark.parametrize("caller", CALLERS)
def test_every_route_lets_in_whom_it_should(peopled: Running, caller: str) -> None:
    """Role by role and scope by scope: nobody gets 401 or 403 who should get in, everybody else does."""
    wrong = []
    for route in NEEDS:
        method, path = route.split(" ")
        # A name that nothing has: what is let in finds nothing, and nothing is changed.
        path = re.sub(r"\{[^}]*\}", "nothing-9", re.sub(r"\{[^}]*:int\}", "9", path))
        status = peopled.status(method, path, credentials(peopled, caller))
        refused = set(expected(route, caller))
        if status not in refused if refused else status in (401,) or (status == 403 and not may_be_403(route)):
            wrong.append(f"{caller}: {route} answered {status}, expected {refused or 'to be let in'}")
    assert wrong == []


def may_be_403(route: str) -> bool:
    """Open routes refuse a wrong link or a form of another site with the same status."""
    return NEEDS[route] == "open"


def test_a_route_that_declares_nothing_is_not_served() -> None:
    """Forgetting it is noticed at the start, not by whoever finds the open door."""

    @get("/forgotten")
    async def forgotten() -> None: ...

    with pytest.raises(UndeclaredRoute, match="GET /forgotten does not declare"):
        check_needs(Litestar([forgotten], openapi_config=None))


def test_a_viewer_changes_nothing() -> None:
    """A route that is not for reading and would let viewers in is refused at the start."""

    @post("/careless", needs="viewer")
    async def careless() -> None: ...

    with pytest.raises(UndeclaredRoute, match="at least an editor"):
        check_needs(Litestar([careless], openapi_config=None))
