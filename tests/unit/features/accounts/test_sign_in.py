"""Signing in to the pages and out again."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest

from hookline.api.auth.access import local_path
from hookline.api.auth.accounts import WAITING_MAX
from hookline.api.auth.admin_token import VALID_SECONDS, OneTimeLink, one_time_link
from hookline.api.auth.service import account_store, login_link, login_throttle, password_hasher, session_store
from hookline.api.auth.sessions import IDLE_MS
from hookline.database.sqlite import DatabaseAway
from hookline.features.fleet.service import own_metrics
from tests.unit.control.running import TOKEN, Answer, Running

OWN = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}


def login(
    control: Running, token: str, headers: dict[str, str] | None = None, after: str = "/", account: str = ""
) -> Answer:
    """Send the form."""
    body = urlencode({"password": token, "next": after, "account": account}).encode()
    return control.call("POST", "/login", body, {**OWN, **(headers or {})}, token=False)


def cookie_of(answer: Answer) -> str:
    """The session cookie as the browser sends it back."""
    return answer.headers["set-cookie"].partition(";")[0]


def home(control: Running, cookie: str = "") -> Answer:
    """Ask for the first page."""
    return control.call("GET", "/", headers={"Cookie": cookie} if cookie else {}, token=False)


def test_without_a_session_there_is_only_the_form(asked: Running) -> None:
    """Every page leads to the form and comes back afterwards; parts are 401; the bearer token opens no page."""
    assert home(asked).headers["location"] == "/login"
    page = asked.call("GET", "/events/m%2F1?source=site", token=False)
    assert (page.status, page.headers["location"]) == (303, "/login?next=%2Fevents%2Fm%252F1%3Fsource%3Dsite")
    assert asked.call("GET", "/", headers={"X-Parts": "1"}, token=False).status == 401
    assert asked.call("GET", "/events/x", headers={"X-Parts": "1"}).status == 401
    assert asked.call("GET", "/").status == 303


def test_the_token_opens_a_session(control: Running) -> None:
    """The right token gives a cookie that no script sees and no other site sends, and goes where one wanted to go."""
    answer = login(control, TOKEN, after="/events/m1")
    assert (answer.status, answer.headers["location"]) == (303, "/events/m1")
    attributes = answer.headers["set-cookie"].lower()
    for attribute in ("httponly", "samesite=strict", "path=/"):
        assert attribute in attributes
    assert "secure" not in attributes
    page = home(control, cookie_of(answer))
    assert (page.status, page.headers["cache-control"]) == (200, "no-store")


def test_a_front_that_loses_the_port_is_borne_with(tmp_path: Path) -> None:
    """Browsers that do not say Sec-Fetch-Site: pages of control.public_url are ours, whatever Host the front made."""
    with Running(tmp_path / "data", public_url="http://hooks.example.com:8443") as control:
        asked = {"Host": "hooks.example.com", "Content-Type": OWN["Content-Type"]}
        body = urlencode({"password": TOKEN}).encode()
        for origin, status in (("http://hooks.example.com:8443", 303), ("http://hooks.example.com:81", 403)):
            assert control.call("POST", "/login", body, {**asked, "Origin": origin}, token=False).status == status


def test_over_tls_the_cookie_is_pinned_to_the_host(tmp_path: Path) -> None:
    """With an https public URL the cookie is Secure and has the __Host- prefix."""
    with Running(tmp_path / "data", public_url="https://hooks.example.com") as control:
        answer = login(control, TOKEN)
        assert answer.headers["set-cookie"].startswith("__Host-")
        assert "secure" in answer.headers["set-cookie"].lower()
        assert "max-age" in answer.headers["strict-transport-security"]


def test_a_planted_cookie_is_worth_nothing(control: Running) -> None:
    """Signing in always makes a new key and ends the session the browser came with."""
    planted = f"{session_store(control.services).cookie_name}=planted"
    first = cookie_of(login(control, TOKEN, {"Cookie": planted}))
    assert first != planted
    second = cookie_of(login(control, TOKEN, {"Cookie": first}))
    assert home(control, planted).status == 303
    assert home(control, first).status == 303
    assert home(control, second).status == 200


@pytest.mark.parametrize("other", ['seen={"page": 1}', "basket[1]=2", "naïve=1", "=", 'half="', "two words"])
def test_cookies_of_others_keep_nobody_out(asked: Running, other: str) -> None:
    """Sites of the same host or domain set cookies as they like, and browsers send them along."""
    cookie = cookie_of(login(asked, TOKEN))
    for header in (f"{other}; {cookie}", f"{cookie}; {other}"):
        assert home(asked, header).status == 200
        assert asked.call("GET", "/login", headers={"Cookie": header}, token=False).headers["location"] == "/"


def test_signing_out_ends_the_session(control: Running) -> None:
    """Afterwards the old cookie opens nothing; another site cannot sign one out."""
    cookie = cookie_of(login(control, TOKEN))
    assert control.call("POST", "/logout", b"", {"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}).status == 403
    assert home(control, cookie).status == 200
    assert control.call("POST", "/logout", b"", {"Cookie": cookie, **OWN}).headers["location"] == "/login"
    assert home(control, cookie).status == 303


@pytest.mark.parametrize(
    ("path", "headers", "is_use"),
    [
        ("/", {}, True),
        ("/", {"X-Parts": "1"}, False),
        ("/api/v1/notices", {}, True),
        ("/api/v1/events/stream", {"Accept": "text/event-stream"}, False),
    ],
)
def test_what_an_open_page_asks_by_itself_is_no_use_of_a_session(
    control: Running, monkeypatch: pytest.MonkeyPatch, path: str, headers: dict[str, str], is_use: bool
) -> None:
    """What people do is: else a page that somebody left open would keep the session from idling out."""
    sessions = session_store(control.services)
    now = sessions._now_ms()
    monkeypatch.setattr(sessions, "_now_ms", lambda: now)
    cookie = cookie_of(login(control, TOKEN))
    now += IDLE_MS - 1
    assert control.status("GET", path, {**headers, "Cookie": cookie}) == 200
    now += IDLE_MS // 2
    assert (home(control, cookie).status == 200) == is_use


def test_wrong_tokens_lock_the_right_one_out_never(control: Running) -> None:
    """After five wrong ones a sixth is told how long to wait; the right one, and the right link, open all the same."""
    link = login_link(control.services).make("http://localhost").removeprefix("http://localhost")
    assert [login(control, "wrong").status for _ in range(5)] == [403] * 5
    answer = login(control, "wrong")
    assert answer.status == 429
    assert 0 < int(answer.headers["retry-after"]) <= 901
    assert login(control, TOKEN).status == 303
    assert [login(control, "wrong").status for _ in range(6)] == [429] * 6
    assert control.call("GET", link, token=False).status == 200
    assert own_metrics(control.services).sign_ins == {"failed": 5, "throttled": 7, "succeeded": 2}


def test_a_database_that_is_away_counts_as_no_try(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tries again until it is back is not kept waiting then, with the right password or a wrong one."""

    def away(*_: object) -> None:
        raise DatabaseAway("connection refused")

    with monkeypatch.context() as outage:
        outage.setattr(account_store(control.services), "credentials", away)
        assert [login(control, "correct horse", account="ada").status for _ in range(6)] == [503] * 6
    assert login(control, "correct horse", account="ada").status == 403


def test_tries_without_room_are_not_counted(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """While many wait, names that somebody makes up are sent away, and push out no failure of anybody."""
    throttle, passwords = login_throttle(control.services), password_hasher(control.services)
    for failures in (throttle._pairs, throttle._accounts, throttle._networks):
        monkeypatch.setattr(failures, "_keys_max", 3)
    assert [login(control, "wrong horse", account="olga").status for _ in range(6)] == [403] * 5 + [429]
    kept = list(throttle._accounts._times)
    with monkeypatch.context() as crowd:
        crowd.setattr(passwords, "_waiting", WAITING_MAX)
        answers = [login(control, "wrong horse", account=f"nobody {number}").status for number in range(4)]
        given = {"account": "nobody", "current": "wrong horse", "new": "another horse of mine"}
        answers.append(control.api("POST", "/users/password", given).status)
    assert answers == [503] * 5
    assert list(throttle._accounts._times) == kept
    assert login(control, "wrong horse", account="olga").status == 429


def test_a_wait_is_said_in_minutes(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded up, and one of them is one minute."""
    throttle = login_throttle(control.services)
    now = 7_500  # whole seconds: by others, a quarter of an hour from now may be a moment more than that from now
    monkeypatch.setattr(throttle, "_clock", lambda: now)
    for _ in range(5):
        login(control, "wrong")
    for waited_seconds, left in ((0, "15 minutes"), (810, "2 minutes"), (30, "1 minute")):
        now += waited_seconds
        assert f"Try again in {left}." in login(control, "wrong").text


def test_wrong_links_are_throttled(control: Running) -> None:
    """Codes are tried no oftener than tokens are."""
    statuses = [control.call("GET", f"/open/{number}", token=False).status for number in range(6)]
    assert statuses == [403] * 5 + [429]


def test_the_form_is_sent_from_our_page_only(control: Running) -> None:
    """Another site cannot sign a browser in."""
    assert login(control, TOKEN, {"Sec-Fetch-Site": "cross-site"}).status == 403


def test_the_one_time_link_opens_once(control: Running) -> None:
    """The link signs in once and its file goes; the second use meets the form."""
    link = login_link(control.services).make("http://localhost")
    assert one_time_link(control.data_path) == link
    assert (control.data_path / "run" / "one-time-link").stat().st_mode & 0o777 == 0o600
    path = link.removeprefix("http://localhost")
    assert control.call("GET", "/open/" + "x" * 43, token=False).status == 403
    opened = control.call("GET", path, token=False)
    assert (opened.status, "/welcome" in opened.text) == (200, True)
    assert home(control, cookie_of(opened)).status == 200
    assert one_time_link(control.data_path) is None
    again = control.call("GET", path, token=False)
    assert (again.status, "set-cookie" in again.headers) == (403, False)


def test_the_link_grows_old(tmp_path: Path) -> None:
    """After a quarter of an hour the link is no good, and its file is gone."""
    now = 0.0
    link = OneTimeLink(tmp_path, clock=lambda: now)
    code = link.make("http://localhost").rpartition("/")[2]
    now = VALID_SECONDS + 1
    assert not link.consume(code)
    assert one_time_link(tmp_path) is None


@pytest.mark.parametrize("path", ["/", "/events/a%2Fb?source=x", "/#events"])
def test_own_paths_are_gone_to(path: str) -> None:
    """A path of ours is kept."""
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", None, "//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a\nb", "/ü", "/" + "a" * 3000],
)
def test_nobody_is_sent_elsewhere(path: str | None) -> None:
    """Anything that is not plainly a path of ours leads to the first page (open redirect)."""
    assert local_path(path) == "/"
