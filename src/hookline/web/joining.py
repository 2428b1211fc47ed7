"""Making an account one's own: the first owner's after the one-time link, and everybody else's after an invitation."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Request, Response, get, post
from litestar.params import FromPath

from hookline.control.accounts.access import require_same_origin
from hookline.control.accounts.accounts import AccountError
from hookline.control.accounts.passwords import refusal_of
from hookline.control.services import FromServices, Services
from hookline.web.rendering import page, redirect
from hookline.web.signed_in import FORM_BYTES_MAX, person, read_form, signed_in

OVER = "This link was already used or is older than 72 hours. Ask an owner for a new link."


class Joining(Controller):
    """Forms of their own beside the sign-in: they end with a session, which no API call opens."""

    @get("/welcome", needs="owner")
    async def show_welcome(self, services: FromServices) -> Response[str]:
        """Offer to create the owner account, as long as there is none at all."""
        return redirect("/") if services.accounts.any() else page("welcome.html", name="", error=None)

    @post("/welcome", request_max_body_size=FORM_BYTES_MAX, needs="owner")
    async def create_owner(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Create the first account and go on as its owner."""
        form = await read_form(request)
        name, password = form.get("name", ""), form.get("password", "")
        refusal = refusal_of(password, name)
        if refusal is not None:
            return page("welcome.html", 422, name=name, error=refusal)
        try:
            account = services.accounts.create_first(name, await services.passwords.hash(password))
        except AccountError as error:
            return page("welcome.html", 422, name=name, error=str(error))
        return signed_in(redirect("/"), services, person(account), "create_owner")

    @get("/join/{code:str}", needs="open")
    async def show_invitation(self, services: FromServices, code: FromPath[str]) -> Response[str]:
        """Show whom the invitation is for, and ask for a password; looking at it does not use it up."""
        return _form(services, code)

    @post("/join/{code:str}", request_max_body_size=FORM_BYTES_MAX, needs="open")
    async def join(self, request: Request[Any, Any, Any], services: FromServices, code: FromPath[str]) -> Response[str]:
        """Put the password in force and open a session; the link is used up, and other sessions end."""
        require_same_origin(request)
        account = services.accounts.invited(code)
        if account is None:
            return _form(services, code)
        password = (await read_form(request)).get("password", "")
        refusal = refusal_of(password, account.name)
        if refusal is not None:
            return _form(services, code, refusal)
        password_hash = await services.passwords.hash(password)
        if services.accounts.invited(code) != account:  # used while the password was hashed
            return _form(services, code)
        services.accounts.set_password(account.id, password_hash)
        services.sessions.close_all(account.id)
        return signed_in(redirect("/"), services, person(account), "join")


def _form(services: Services, code: str, error: str | None = None) -> Response[str]:
    account = services.accounts.invited(code)
    if account is None:
        people = services.accounts.any()
        return page("login.html", 403, after="/", account="", error=OVER, people=people)
    return page("join.html", 422 if error else 200, code=code, account=account, error=error)
