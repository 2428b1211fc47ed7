"""Put together the parts that tell who calls."""

from __future__ import annotations

from hookline.api.auth import admin_token as stored_token
from hookline.api.auth.accounts import Accounts
from hookline.api.auth.admin_token import AdminToken
from hookline.api.auth.login_throttle import LoginThrottle
from hookline.api.auth.one_time_link import OneTimeLink
from hookline.api.auth.passwords import Passwords
from hookline.api.auth.sessions import Sessions
from hookline.api.auth.tokens import Tokens
from hookline.api.services import Services, control_database, part


@part
def admin_token(services: Services) -> AdminToken:
    """Raise AdminTokenError when it cannot be used."""
    return stored_token.load(services.settings)


@part
def account_store(services: Services) -> Accounts:
    """Return the accounts of people."""
    return Accounts(control_database(services))


@part
def password_hasher(services: Services) -> Passwords:
    """Return what hashes and checks passwords."""
    return Passwords()


@part
def session_store(services: Services) -> Sessions:
    """Return the open sessions; their cookies are for TLS alone where the service is reached by it."""
    secure = (services.settings.control.public_url or "").startswith("https://")
    return Sessions(control_database(services), admin_token(services).mark, secure)


@part
def token_store(services: Services) -> Tokens:
    """Return the tokens of programs."""
    return Tokens(control_database(services))


@part
def login_throttle(services: Services) -> LoginThrottle:
    """Return what slows down guessing."""
    return LoginThrottle()


@part
def login_link(services: Services) -> OneTimeLink:
    """Return the link that opens a first session."""
    return OneTimeLink(services.settings.data_path)
