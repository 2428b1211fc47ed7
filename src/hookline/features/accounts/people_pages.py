"""``/settings/people`` and ``tokens``: who may sign in, and what programs come with."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Request, Response, get
from litestar.params import FromPath

from hookline.api.auth.roles import ROLES, SCOPES
from hookline.api.auth.service import account_store, token_store
from hookline.api.listing import After, id_number, number_after
from hookline.api.services import FromServices
from hookline.features.accounts.api import tag_of, user_of
from hookline.features.accounts.pages import person
from hookline.features.accounts.tokens_api import token_view_of
from hookline.features.settings.pages import tabs
from hookline.web.screen import screen, unknown

ROWS_ON_A_PAGE = 50
WHAT_ROLES_DO = {
    "viewer": "viewer: looks at everything but this",
    "editor": "editor: also changes sources, destinations, filters, replays, dead letters",
    "owner": "owner: also people, tokens, settings",
}
WHAT_SCOPES_DO = {
    "read": "read: what a viewer may",
    "write": "write: what an editor may",
    "admin": "admin: everything",
}
LIFETIMES = (("90d", "90 days"), ("30d", "30 days"), ("365d", "a year"), ("", "until it is revoked"))

PageRequest = Request[Any, Any, Any]


class PeopleScreens(Controller):
    """Looking only; what they change goes through the admin API."""

    path = "/settings"

    @get("/people", needs="owner")
    async def show_people(self, request: PageRequest, services: FromServices, after: After = None) -> Response[str]:
        """List the accounts."""
        found = account_store(services).page(ROWS_ON_A_PAGE + 1, number_after(after, "u") or 0)
        users = [user_of(account) for account in found[:ROWS_ON_A_PAGE]]
        return screen(
            request,
            "settings_people.html",
            "settings",
            tabs=tabs("People"),
            users=users,
            roles=[(role, WHAT_ROLES_DO[role]) for role in ROLES],
            first="/settings/people" if after else "",
            after=f"/settings/people?after={users[-1].id}" if len(found) > len(users) else "",
        )

    @get("/people/{id:str}", needs="owner")
    async def show_person(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show one account and what can be changed about it."""
        number = id_number(id, "u")
        account = None if number is None else account_store(services).get(number)
        if account is None:
            return unknown(request, "settings", "Account", "There is no account of this id", id, "It may be removed.")
        user = user_of(account)
        given = {"roles": [(role, WHAT_ROLES_DO[role]) for role in ROLES], "author": person(account).author}
        return screen(request, "settings_person.html", "settings", user=user, match=tag_of(user), **given)

    @get("/tokens", needs="owner")
    async def show_tokens(self, request: PageRequest, services: FromServices, after: After = None) -> Response[str]:
        """List the tokens."""
        found = token_store(services).page(ROWS_ON_A_PAGE + 1, number_after(after, "t") or 0)
        tokens = [token_view_of(services, token) for token in found[:ROWS_ON_A_PAGE]]
        return screen(
            request,
            "settings_tokens.html",
            "settings",
            tabs=tabs("Tokens"),
            tokens=tokens,
            scopes=[(scope, WHAT_SCOPES_DO[scope]) for scope in SCOPES],
            lifetimes=LIFETIMES,
            first="/settings/tokens" if after else "",
            after=f"/settings/tokens?after={tokens[-1].id}" if len(found) > len(tokens) else "",
        )

    @get("/tokens/{id:str}", needs="owner")
    async def show_token(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show one token."""
        number = id_number(id, "t")
        token = None if number is None else token_store(services).get(number)
        if token is None:
            return unknown(request, "settings", "Token", "There is no token of this id", id, "It may be revoked.")
        view = token_view_of(services, token)
        return screen(request, "settings_token.html", "settings", token=view, scope=WHAT_SCOPES_DO[view.scope])

    @get("/account", needs="viewer")
    async def show_account(self, request: PageRequest) -> Response[str]:
        """Show who one is, and what one may change about that."""
        return screen(request, "settings_account.html", "settings", tabs=tabs("Your account"))
