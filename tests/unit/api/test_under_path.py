"""What the wrapper does that knows of control's path, and what it must know of."""

from __future__ import annotations

import re
from gzip import decompress
from pathlib import Path

import pytest

from hookline import web
from hookline.settings import SettingsError, load
from tests.unit.control.running import TOKEN, Running

SCRIPTS = Path(web.__file__).parent / "static"
KNOWN = {"api", "audiences", "destinations", "events", "login", "people", "replays", "setup", "sources", "filters"}
"""First words of addresses in scripts, and ``/filters/``, which is a pointer into an object."""


def test_every_address_in_our_scripts_is_known() -> None:
    """A script that leads to a page of another kind adds its first word to the wrapper."""
    literals = [re.findall(r"[\"'`]/([a-z][a-z-]+)", script.read_text()) for script in SCRIPTS.glob("*.js")]
    assert {word for found in literals for word in found} <= KNOWN


def test_packed_pages_are_written_too(tmp_path: Path) -> None:
    """Browsers ask for gzip, and get pages whose links are below the path."""
    with Running(tmp_path / "data", public_url="http://example.com/hookline") as control:
        form = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
        signed_in = control.call("POST", "/hookline/login", f"password={TOKEN}".encode(), form, token=False)
        cookie = signed_in.headers["set-cookie"].partition(";")[0]
        packed = control.call("GET", "/hookline/", None, {"Cookie": cookie, "Accept-Encoding": "gzip"}, token=False)
        page = decompress(packed.body).decode()
        assert set(re.findall(r'href="/([a-z]*)', page)) == {"hookline"}


def test_what_events_say_is_left_as_it_is(tmp_path: Path) -> None:
    """Only attributes of our templates are addresses; text that looks like one is escaped, and stays."""
    with Running(tmp_path / "data", public_url="https://example.com/hookline") as control:
        text = control.call("GET", '/hookline/login?next=/events/x"+href="/y', token=False).text
        assert 'action="/hookline/login"' in text
        assert "/events/x&#34; href=&#34;/y" in text
        assert control.call("GET", "/login", token=False).text.count("/hookline/") >= 1
        assert control.call("GET", "/", token=False).headers["location"] == "/hookline/login"


@pytest.mark.parametrize("url", ["https://example.com/a b", "https://example.com/%2e", "https://example.com/a?b"])
def test_a_path_that_is_not_plain_is_refused(url: str) -> None:
    """At the start, with what to write."""
    with pytest.raises(SettingsError, match="a plain path"):
        load(environment={"HOOKLINE_CONTROL_PUBLIC_URL": url})
