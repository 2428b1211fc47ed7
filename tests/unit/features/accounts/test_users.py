"""Accounts: inviting, joining, signing in with a password, roles, and the way out."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from urllib.parse import urlencode

import pytest

from hookline.api.auth.accounts import INVITATION_MS, AccountError, Accounts, Passwords, refusal_of
from hookline.api.auth.service import account_store, login_link, session_store
from hookline.api.services import control_database
from hookline.features.accounts.api import browser_of
from hookline.features.events import api, service
from hookline.settings import Collect, Networks
from tests.unit.control.running import TOKEN, WAIT_SECONDS, Answer, Running, Stream
from tests.unit.features.accounts.test_sign_in import OWN, cookie_of, home, login

PASSWORD = "correct horse battery"


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def post_form(control: Running, path: str, cookie: str = "", **fields: str) -> Answer:
    """Send a form as a browser does."""
    headers = {**OWN, **({"Cookie": cookie} if cookie else {})}
    return control.call("POST", path, urlencode(fields).encode(), headers, token=False)


def as_browser(control: Running, method: str, path: str, cookie: str, body: object = None) -> Answer:
    """A call of the API from a page."""
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    return control.call(method, "/api/v1" + path, body, headers, token=False)


def owner(control: Running, name: str = "olga@example.com") -> str:
    """Create the owner account the way a person does; return its cookie."""
    link = login_link(control.services).make("http://localhost")
    opened = cookie_of(control.call("GET", link.removeprefix("http://localhost"), token=False))
    made = post_form(control, "/welcome", opened, name=name, password=PASSWORD)
    assert (made.status, made.headers["location"]) == (303, "/")
    assert home(control, opened).status == 303, "the session of the link ends"
    return cookie_of(made)


def join(control: Running, name: str, role: str) -> str:
    """Invite somebody and let them join; return their cookie."""
    made = control.api("POST", "/users", {"name": name, "role": role}).json
    return cookie_of(post_form(control, "/join/" + made["link"].rpartition("/")[2], password=PASSWORD))


def test_the_first_owner_comes_by_the_one_time_link(control: Running) -> None:
    """The link leads to a form that makes the owner account; afterwards it is no more offered."""
    cookie = owner(control)
    me = as_browser(control, "GET", "/users/me", cookie).json
    assert (me["kind"], me["name"], me["role"]) == ("account", "olga@example.com", "owner")
    assert control.call("GET", "/welcome", headers={"Cookie": cookie}, token=False).headers["location"] == "/"
    assert post_form(control, "/welcome", cookie, name="second", password=PASSWORD).status == 422
    assert len(control.api("GET", "/users").json["items"]) == 1


def test_a_refused_password_has_the_cursor(control: Running) -> None:
    """The name stays as it was typed; what is to be typed again is the field that one stands in."""
    link = login_link(control.services).make("http://localhost")
    opened = cookie_of(control.call("GET", link.removeprefix("http://localhost"), token=False))
    refused = post_form(control, "/welcome", opened, name="olga@example.com", password="olga@example.com")
    assert refused.status == 422
    (focused,) = re.findall(r"<input[^>]* autofocus[^>]*>", refused.text)
    assert 'id="password"' in focused


def test_an_account_signs_in_with_its_password_only(control: Running) -> None:
    """The right password opens, in any case of the name; a wrong one, no such account and the token do not."""
    owner(control)
    assert login(control, PASSWORD, account="Olga@Example.com").status == 303
    assert login(control, "wrong password!", account="olga@example.com").status == 403
    assert login(control, PASSWORD, account="nobody@example.com").status == 403
    assert login(control, PASSWORD).status == 403


def test_an_invitation_is_good_once(control: Running) -> None:
    """The link shows whom it is for, lets one choose a password, and is then used up."""
    made = control.api("POST", "/users", {"name": "vera", "role": "viewer"})
    path = "/join/" + made.json["link"].rpartition("/")[2]
    assert (made.status, made.json["user"]["joined"]) == (201, False)
    shown = control.call("GET", path, token=False).text
    assert "You are invited" in shown
    assert "vera" in shown
    assert login(control, "", account="vera").status == 403, "no password signs nobody in"
    assert post_form(control, path, password="short").status == 422
    joined = post_form(control, path, password=PASSWORD)
    assert (joined.status, home(control, cookie_of(joined)).status) == (303, 200)
    assert control.call("GET", path, token=False).status == 403
    assert post_form(control, path, password=PASSWORD).status == 403
    assert control.api("GET", "/users/u1").json["joined"] is True


def test_another_site_joins_for_nobody(control: Running) -> None:
    """The form of an invitation takes its answer from our page only."""
    path = "/join/" + control.api("POST", "/users", {"name": "vera"}).json["link"].rpartition("/")[2]
    headers = {**OWN, "Sec-Fetch-Site": "cross-site"}
    body = urlencode({"password": PASSWORD}).encode()
    assert control.call("POST", path, body, headers, token=False).status == 403
    assert control.call("GET", path, token=False).status == 200


def test_a_changed_role_ends_the_sessions(control: Running) -> None:
    """Who is given another role signs in anew; a repeat of what is so already ends nothing."""
    owner(control)
    cookie = join(control, "vera", "viewer")
    assert control.api("PATCH", "/users/u2", {"role": "viewer"}).json["role"] == "viewer"
    assert home(control, cookie).status == 200
    assert control.api("PATCH", "/users/u2", {"role": "editor"}).json["role"] == "editor"
    assert home(control, cookie).status == 303
    assert login(control, PASSWORD, account="vera").status == 303


def test_a_disabled_account_is_out(control: Running) -> None:
    """Its sessions end, its password and its invitation open nothing, until it is enabled again."""
    owner(control)
    cookie = join(control, "vera", "viewer")
    again = control.api("POST", "/users/u2/invite").json["link"].rpartition("/")[2]
    control.api("PATCH", "/users/u2", {"disabled": True})
    assert home(control, cookie).status == 303
    assert login(control, PASSWORD, account="vera").status == 403
    assert control.call("GET", f"/join/{again}", token=False).status == 403
    assert control.api("POST", "/users/u2/invite").json["code"] == "account_disabled", (
        "no link is shown that opens nothing"
    )
    control.api("PATCH", "/users/u2", {"disabled": False})
    shown = control.call("GET", f"/join/{again}", token=False)
    assert (shown.status, "Save password" in shown.text, "You are invited" in shown.text) == (200, True, False)
    assert login(control, PASSWORD, account="vera").status == 303


def test_an_open_stream_ends_with_its_session(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is signed out hears no more, although the connection was opened before."""
    monkeypatch.setattr(service, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(api, "KNOWN_SECONDS", 0.0)
    stream = Stream(control, {"Cookie": owner(control), "Authorization": ""})
    assert stream.answer.status == 200
    session_store(control.services).end_all(1)
    assert list(stream.events()) == []
    stream.close()


def test_there_is_always_an_owner(control: Running) -> None:
    """The last owner is neither removed nor demoted nor disabled while there are others; alone, it may go."""
    owner(control)
    join(control, "vera", "viewer")
    for method, body in (("DELETE", None), ("PATCH", {"role": "editor"}), ("PATCH", {"disabled": True})):
        answer = control.api(method, "/users/u1", body)
        assert (answer.status, answer.json["code"]) == (409, "last_owner")
    assert control.api("DELETE", "/users/u2").status == 204
    assert control.api("DELETE", "/users/u1").status == 204


def test_a_password_is_changed_with_the_old_one(control: Running) -> None:
    """Every session ends and the one that changed it goes on under a new key; the old password opens nothing."""
    first, second = owner(control), cookie_of(login(control, PASSWORD, account="olga@example.com"))
    new = "another four words here"
    wrong = as_browser(control, "POST", "/users/me/password", first, {"current": "no", "new": new})
    assert (wrong.status, wrong.json["code"]) == (403, "wrong_password")
    weak = as_browser(control, "POST", "/users/me/password", first, {"current": PASSWORD, "new": "aaaaaaaaaaaa"})
    assert (weak.status, weak.json["code"]) == (422, "weak_password")
    done = as_browser(control, "POST", "/users/me/password", first, {"current": PASSWORD, "new": new})
    assert (done.status, done.json["sessions"]) == (200, 2)
    assert [home(control, cookie).status for cookie in (first, second, cookie_of(done))] == [303, 303, 200]
    assert login(control, PASSWORD, account="olga@example.com").status == 403
    assert login(control, new, account="olga@example.com").status == 303


def test_the_old_password_opens_nothing_while_it_is_changed(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check takes its time, and may have begun before the change: it gets no session, and no password in force."""
    cookie, new, matches = owner(control), "another four words here", Passwords.matches
    account = account_store(control.services).credentials("olga@example.com")
    assert account is not None

    async def changed_meanwhile(self: Passwords, password: str, *rest: object) -> bool:
        matched = await matches(self, password, *rest)  # type: ignore[arg-type]
        if password == PASSWORD:
            account_store(control.services).set_password(account.id, await self.hash(new))
            session_store(control.services).end_all(account.id, "password")
        return matched

    with monkeypatch.context() as patch:
        patch.setattr(Passwords, "matches", changed_meanwhile)
        body = {"current": PASSWORD, "new": "four words of a stranger"}
        refused = as_browser(control, "POST", "/users/me/password", cookie, body)
        account_store(control.services).set_password(account.id, asyncio.run(Passwords().hash(PASSWORD)))
        assert login(control, PASSWORD, account="olga@example.com").status == 403
    assert (refused.status, refused.json["code"]) == (403, "wrong_password")
    assert login(control, new, account="olga@example.com").status == 303


def test_signing_out_everywhere(control: Running) -> None:
    """All sessions of one's own end, those of others do not; a token has none."""
    mine, also, other = owner(control), cookie_of(login(control, PASSWORD, account="olga@example.com")), ""
    other = join(control, "vera", "viewer")
    assert as_browser(control, "POST", "/users/me/sign-out", mine).json == {"sessions": 2}
    assert [home(control, cookie).status for cookie in (mine, also, other)] == [303, 303, 200]
    text = control.api("POST", "/tokens", {"name": "ci", "scope": "admin"}).json["text"]
    headers = {"Authorization": f"Bearer {text}"}
    assert control.call("POST", "/api/v1/users/me/sign-out", None, headers).json["code"] == "no_sessions"


def test_a_name_that_cannot_be_shown_is_refused(control: Running) -> None:
    """Names are printable and of a length that fits; a taken one is said to be."""
    for name in ("", " ", "a\nb", "x" * 201):
        answer = control.api("POST", "/users", {"name": name})
        assert (answer.status, answer.json["code"]) == (422, "invalid_name"), name
    control.api("POST", "/users", {"name": "Vera"})
    assert control.api("POST", "/users", {"name": " vera "}).json["code"] == "already_exists"


@pytest.mark.parametrize(
    "name",
    [
        "admin token",
        "Admin  Token",
        "ａｄｍｉｎ token",
        "admin-token",
        "token ci",
        "Token\u00a0ci",
        "nobody",
        "hookline",
    ],
)
def test_a_name_that_looks_like_something_else_is_refused(asked: Running, name: str) -> None:
    """Nobody is called like the admin token, a token or the service, however it is written."""
    answer = asked.api("POST", "/users", {"name": name})
    assert (answer.status, answer.json["code"]) == (422, "invalid_name")


def test_two_names_that_look_alike_are_one(control: Running) -> None:
    """In other letters of the same form an account exists already; a name with another sign in it is another one."""
    assert control.api("POST", "/users", {"name": "olga_s@example.com"}).status == 201
    assert control.api("POST", "/users", {"name": "ＯＬＧＡ_s@example.com"}).json["code"] == "already_exists"
    assert control.api("POST", "/users", {"name": "olga-s@example.com"}).status == 201


def test_strangers_lock_no_account_out(tmp_path: Path) -> None:
    """With every address of a crowd locked for an account, its owner signs in from another one, the token from any."""
    trusted = Collect(trusted_proxies=Networks(("127.0.0.0/8",)))
    with Running(tmp_path / "data", collect=trusted) as control:
        join(control, "olga", "owner")
        for number in range(10):
            crowd = {"X-Forwarded-For": f"203.0.113.{number}"}
            for _ in range(6):
                login(control, "wrong", crowd)
                refused = login(control, "wrong", crowd, account="olga")
            assert refused.status == 429
        assert login(control, PASSWORD, {"X-Forwarded-For": "198.51.100.1"}, account="olga").status == 303
        assert login(control, TOKEN, crowd).status == 303


def test_trailers_make_up_no_address(tmp_path: Path) -> None:
    """What a client sends behind its body, and a proxy passes on, stands for nothing that the proxy wrote before it."""
    trusted = Collect(trusted_proxies=Networks(("127.0.0.0/8",)))
    head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nX-Forwarded-For: 203.0.113.1\r\n"
    head += b"Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n"
    form = b"account=olga&password=wrong"
    with Running(tmp_path / "data", collect=trusted) as control:
        for number in range(6):
            trailer = b"X-Forwarded-For: 198.51.100.%d\r\n" % number
            with socket.create_connection(("127.0.0.1", control.port), timeout=WAIT_SECONDS) as client:
                client.sendall(head + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(form), form, trailer))
                status = client.recv(4_096)[9:12]
        assert status == b"429"


def test_an_invitation_grows_old(control: Running) -> None:
    """After three days the link is worth nothing; a new one is."""
    now = 1_000
    accounts = Accounts(control_database(control.services), now_ms=lambda: now)
    account, code = accounts.invite("vera", "viewer")
    now += INVITATION_MS
    assert accounts.invited(code) is None
    assert accounts.invited(accounts.invite_again(account.id)) is not None


def test_only_the_first_account_needs_no_invitation(control: Running) -> None:
    """Two who open the first form at once do not both become owners."""
    account_store(control.services).create_first("olga", "hash")
    with pytest.raises(AccountError, match="an owner can invite"):
        account_store(control.services).create_first("otto", "hash")


def test_passwords_are_kept_as_argon2id() -> None:
    """Only the right one matches; for nobody, and for a broken hash, none does."""

    async def matching() -> list[bool]:
        passwords = Passwords()
        stored = await passwords.hash(PASSWORD)
        assert stored.startswith("$argon2id$")
        tries = ((PASSWORD, stored), ("x", stored), (PASSWORD, None), (PASSWORD, "not a hash"))
        return [await passwords.matches(*each) for each in tries]

    assert asyncio.run(matching()) == [True, False, False, False]


@pytest.mark.parametrize("password", ["short", "a" * 300, "aaaaaaaaaaaaaa", "olga@example.com"])
def test_weak_passwords_are_refused(password: str) -> None:
    """Too short, too long, all alike, or the account's own name."""
    assert refusal_of(password, "olga@example.com") is not None
    assert refusal_of(PASSWORD, "olga@example.com") is None


FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"


def test_sessions_are_listed_and_ended(control: Running) -> None:
    """One's own, another's by an owner; an id opens nothing, and a browser that is out is told why."""
    olga = owner(control)
    anna = join(control, "anna", "editor")
    second = cookie_of(login(control, PASSWORD, {"User-Agent": FIREFOX}, account="anna"))
    mine = as_browser(control, "GET", "/users/me/sessions", anna).json["items"]
    assert sorted(each["current"] for each in mine) == [False, True]
    (other,) = (each for each in mine if not each["current"])
    assert (other["browser"], other["address"]) == ("Firefox on Linux", "127.0.0.1")
    assert second.partition("=")[2] not in str(mine)
    listed = as_browser(control, "GET", "/users/u2/sessions", olga).json["items"]
    assert [each["id"] for each in listed] == [each["id"] for each in mine]
    assert not any(each["current"] for each in listed)
    assert as_browser(control, "GET", "/users/u1/sessions", anna).status == 403
    assert as_browser(control, "DELETE", f"/users/u1/sessions/{other['id']}", olga).status == 404
    assert as_browser(control, "DELETE", f"/users/me/sessions/{other['id']}", olga).status == 404
    assert as_browser(control, "DELETE", f"/users/me/sessions/{other['id']}", anna).status == 204
    assert as_browser(control, "GET", "/users/me", second).status == 401
    assert "ended from another browser, or by an owner" in said_to(control, second)
    assert as_browser(control, "POST", "/users/u2/sign-out", olga).json == {"sessions": 1}
    assert "ended from another browser, or by an owner" in said_to(control, anna)
    third = cookie_of(login(control, PASSWORD, account="anna"))
    fourth = cookie_of(login(control, PASSWORD, account="anna"))
    assert as_browser(control, "POST", "/users/me/sign-out-others", fourth).json == {"sessions": 1}
    assert as_browser(control, "GET", "/users/me", third).status == 401
    assert as_browser(control, "GET", "/users/me", fourth).status == 200


def said_to(control: Running, cookie: str) -> str:
    """The sign-in page as a browser sees it that still has a cookie."""
    return control.call("GET", "/login", headers={"Cookie": cookie}, token=False).text


def test_who_is_out_is_told_why(control: Running) -> None:
    """A new password, a changed account, everywhere out, or simply too long; nothing to who never was in."""
    olga, anna = owner(control), join(control, "anna", "editor")
    change = {"current": PASSWORD, "new": "another good password"}
    third = cookie_of(login(control, PASSWORD, account="anna"))
    assert as_browser(control, "POST", "/users/me/password", anna, change).status == 200
    assert "password of this account was changed" in said_to(control, third)
    third = cookie_of(login(control, "another good password", account="anna"))
    control.call("PATCH", "/api/v1/users/u2", {"role": "viewer"}, {"Cookie": olga, "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/merge-patch+json"}, token=False)  # fmt: skip
    assert "An owner changed this account" in said_to(control, third)
    assert as_browser(control, "POST", "/users/me/sign-out", olga).json == {"sessions": 1}
    assert "signed out everywhere" in said_to(control, olga)
    name = olga.partition("=")[0]
    assert "12 hours without use" in said_to(control, f"{name}=of-another-service")
    assert 'class="why"' not in control.call("GET", "/login", token=False).text


def test_a_password_is_changed_by_who_knows_it(control: Running) -> None:
    """As the command line does with any token: the password in force decides, and guesses are slowed down."""
    anna = (owner(control), join(control, "anna", "viewer"))[1]
    body = {"account": "anna", "current": PASSWORD, "new": "another good password"}
    assert control.api("POST", "/users/password", {**body, "current": "no"}).json["code"] == "wrong_password"
    assert control.api("POST", "/users/password", {**body, "account": "nobody"}).json["code"] == "wrong_password"
    assert control.api("POST", "/users/password", {**body, "new": "short"}).json["code"] == "weak_password"
    assert control.api("POST", "/users/password", body).json == {"sessions": 1}
    assert as_browser(control, "GET", "/users/me", anna).status == 401
    assert login(control, "another good password", account="anna").status == 303
    tries = [control.api("POST", "/users/password", {**body, "account": "nobody"}).status for _ in range(6)]
    assert tries[-1] == 429
    assert set(tries) == {403, 429}


def test_what_others_try_keeps_nobody_from_a_new_password(control: Running) -> None:
    """Whoever is signed in has tries of their own, also after somebody else guessed theirs with a token."""
    anna = (owner(control), join(control, "anna", "viewer"))[1]
    guess = {"account": "anna", "current": "no", "new": "another good password"}
    assert [control.api("POST", "/users/password", guess).status for _ in range(6)] == [403] * 5 + [429]
    change = {"current": PASSWORD, "new": "another good password"}
    assert as_browser(control, "POST", "/users/me/password", anna, change).status == 200


def test_a_guess_by_who_is_known_is_on_record(control: Running) -> None:
    """Whoever may only read, and tries passwords of others, is named where failed attempts are looked for."""
    owner(control)
    token = control.api("POST", "/tokens", {"name": "reader", "scope": "read"}).json["text"]
    guess = {"account": "olga@example.com", "current": "a guess of mine", "new": "another good password"}
    headers = {"Authorization": f"Bearer {token}"}
    assert control.call("POST", "/api/v1/users/password", guess, headers).json["code"] == "wrong_password"
    control.call("POST", "/api/v1/users/password", {**guess, "account": "nobody"}, headers)
    entries = control.api("GET", "/audit-log?action=sign_in_failed").json["items"]
    assert [(each["actor"], each["target"]) for each in entries] == [("token reader", "users/u1")]


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1", "Safari on iPhone"),
        ("curl/8.0", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_browser_in_words(agent: str, words: str) -> None:
    """As people call it."""
    assert browser_of(agent) == words


def test_an_account_has_one_id(control: Running) -> None:
    """Under another spelling of it, what is done to the account would not be found in the audit log."""
    join(control, "ada", "viewer")
    for method, path in (("GET", "/users/u01"), ("POST", "/users/u01/sign-out"), ("DELETE", "/users/u01")):
        assert control.api(method, path).status == 404
    assert control.api("GET", "/users/u1").json["name"] == "ada"
