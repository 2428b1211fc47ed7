"""Control under a path of a host that has other things too, behind nginx: every link, form and stream is below it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from hookline.bench.service import free_port
from hookline.control.pages import RAIL
from tests.docs.pages import DOCS
from tests.service.client import send
from tests.service.harness import Hookline, Receiver, is_ready, wait_until, webhook

PATH = "/hookline"
LINKS = "[...document.querySelectorAll('[href], [src], [action]')].map(each => each.href || each.src || each.action)"
PAGES = ("/setup", "/replays", "/notices", "/settings/server", "/destinations/new", "/destinations/crm/settings")
NGINX = """
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
    server {{ listen 127.0.0.1:{strips}; location {path}/ {{ proxy_pass http://127.0.0.1:{control}/; }} }}
    server {{ listen 127.0.0.1:{passes}; {documented} }}
}}
"""


class Fronted:
    """The service, and the ports of the two nginx servers in front of it."""

    def __init__(self, hookline: Hookline, ports: dict[str, int]) -> None:
        self.hookline = hookline
        self.ports = ports


@pytest.fixture(scope="module")
def fronted(tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver) -> Iterator[Fronted]:
    """One service under a path: nginx takes the path off, or passes it on as the page on production has it."""
    folder = tmp_path_factory.mktemp("path")
    ports = {"strips": free_port(), "passes": free_port()}
    settings = {"control.public_url": f"http://127.0.0.1:{ports['strips']}{PATH}"}
    with Hookline(folder / "h", [webhook("crm", shared_receiver.url())], settings=settings) as hookline:
        config = folder / "nginx.conf"
        text = (DOCS / "how-to" / "run-in-production.md").read_text()
        (block,) = re.findall(r"^```nginx\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        documented = block.replace("127.0.0.1:8081", f"127.0.0.1:{hookline.control_port}")
        control = hookline.control_port
        config.write_text(NGINX.format(folder=folder, path=PATH, control=control, documented=documented, **ports))
        nginx = subprocess.Popen(["nginx", "-c", str(config), "-e", str(folder / "error.log")])
        try:
            yield Fronted(hookline, ports)
        finally:
            nginx.terminate()
            nginx.wait(30)


@pytest.fixture(params=["strips", "passes"])
def front(request: pytest.FixtureRequest, fronted: Fronted) -> int:
    """The port of one of the two."""
    port = fronted.ports[request.param]
    wait_until(lambda: is_ready(port, f"{PATH}/readyz"), what="nginx")
    return port


@pytest.fixture
def hookline(fronted: Fronted) -> Hookline:
    """The service behind nginx."""
    return fronted.hookline


@pytest.fixture
def origin(front: int) -> str:
    """Whatever the browser asks for elsewhere is a foreign request."""
    return f"http://127.0.0.1:{front}{PATH}"


def test_pages_under_a_path_lead_nowhere_else(page: Page, hookline: Hookline, origin: str) -> None:
    """Signing in, every page of the rail, a form that calls the API, events as they come, and signing out."""
    page.goto(f"{origin}/events?type=track")
    page.locator("#password").fill(hookline.admin_token)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{origin}/events?type=track")
    for path in (*(stop.href for stop in RAIL), *PAGES):
        answer = page.goto(origin + path)
        assert answer is not None
        assert answer.status == 200, path
        links = [
            link for link in page.evaluate(LINKS) if isinstance(link, str) and link.startswith("http://127.0.0.1:")
        ]
        assert [link for link in links if not link.startswith(origin + "/")] == [], path
    page.goto(f"{origin}/events")
    hookline.track("Below a path")
    page.get_by_text("Below a path").first.click()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{origin}/events/m-**")
    page.goto(f"{origin}/destinations/crm/settings")
    page.get_by_label("Name").first.fill("The CRM")
    page.get_by_role("button", name="Save").first.click()
    wait_until(lambda: hookline.api("GET", "destinations/crm").json["name"] == "The CRM", what="the change")
    hookline.api("PATCH", "destinations/crm", {"name": "crm"})
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{origin}/login")


def test_what_is_found_under_a_path_is_below_it(page: Page, hookline: Hookline, origin: str) -> None:
    """By the palette, in what it opened last, in the documentation and among saved views."""
    page.goto(f"{origin}/events?type=track")
    page.locator("#password").fill(hookline.admin_token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Views", exact=True).click()
    page.get_by_placeholder("Name", exact=True).fill("Tracks")
    page.get_by_role("button", name="Save view").click()
    page.get_by_role("link", name="Tracks").wait_for()
    page.goto(f"{origin}/events")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("link", name="Tracks").click()
    expect(page).to_have_url(f"{origin}/events?type=track")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("button", name="Delete Tracks").click()
    expect(page.get_by_text("No saved views of this list yet.")).to_be_visible()
    for typed, option in (("crm", "crm"), ("", "crm"), ("qqqq", "Search all events for “qqqq”")):
        page.goto(f"{origin}/events")
        page.keyboard.press("Control+k")
        page.keyboard.type(typed)
        expect(page.get_by_role("dialog").get_by_role("option", selected=True)).to_contain_text(option)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{origin}/events?text=qqqq" if typed == "qqqq" else f"{origin}/destinations/crm")
    page.goto(f"{origin}/docs")
    page.get_by_role("searchbox").fill("quick start")
    page.locator("[data-docs-search] .found a").first.click()
    page.wait_for_url(f"{origin}/docs/**")


def test_the_api_answers_with_and_without_the_path(front: int, hookline: Hookline) -> None:
    """What it says where a new object is leads there; who asks control itself needs no path."""
    bearer = {"Authorization": f"Bearer {hookline.admin_token}", "Content-Type": "application/json"}
    source = {"id": f"s{front}", "name": "New", "type": "server"}
    made = send(front, "POST", f"{PATH}/api/v1/sources", source, bearer)
    assert (made.status, made.headers["location"]) == (201, f"{PATH}/api/v1/sources/s{front}")
    assert send(front, "GET", made.headers["location"], headers=bearer).json["name"] == "New"
    assert send(hookline.control_port, "GET", f"/api/v1/sources/s{front}", headers=bearer).status == 200


def test_metrics_stay_inside(fronted: Fronted) -> None:
    """The lines of the page hide what needs no token; whoever asks control itself gets it."""
    port = fronted.ports["passes"]
    wait_until(lambda: is_ready(port, f"{PATH}/readyz"), what="nginx")
    assert [send(port, "GET", f"{PATH}/{path}").status for path in ("metrics", "%6detrics", "/metrics")] == [404] * 3
    assert send(fronted.hookline.control_port, "GET", "/metrics").status == 200
