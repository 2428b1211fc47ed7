"""docs/how-to/behind-a-balancer.md: each configuration is started as it stands there, and calls and pages pass."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from email.message import Message
from pathlib import Path

import pytest

from tests.docs.pages import DOCS
from tests.service.client import basic
from tests.service.deliver.certificates import Authority
from tests.service.fronts import FRONTS, MODULES, Front
from tests.service.harness import WRITE_KEY, Hookline, new_id, webhook
from tests.service.receiver import Receiver

PAGE = DOCS / "how-to" / "behind-a-balancer.md"
EVENTS, PAGES = "events.example.com", "hookline.example.com"
APACHE = ("mpm_event", "authz_core", "ssl", "socache_shmcb", "proxy", "proxy_http")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Hookline]:
    """One service with the settings of the page."""
    settings = {
        "collect.public_url": f"https://{EVENTS}",
        "collect.trusted_proxies": ["127.0.0.1/32"],
        "control.public_url": f"https://{PAGES}",
    }
    folder = tmp_path_factory.mktemp("balanced")
    with Hookline(folder, [webhook("crm", receiver.url())], settings=settings) as running:
        yield running


@pytest.mark.parametrize("name", FRONTS)
def test_calls_and_pages_pass(name: str, hookline: Hookline, receiver: Receiver, tmp_path: Path) -> None:
    """An event arrives with the address of its client, a page opens by its name, and metrics stay inside."""
    tmp_path.chmod(0o755)
    with _documented(name, hookline, tmp_path) as front:
        id = new_id()
        event = {"type": "track", "event": "Test", "userId": "u1", "messageId": id}
        headers = {**basic(WRITE_KEY), "X-Forwarded-For": "203.0.113.9", "Origin": "https://example.com"}
        assert _call(front.port, EVENTS, "POST", "/v1/track", json.dumps(event).encode(), headers)[0] == 200
        hidden = ("/metrics", "/%6detrics", "//metrics", "/./metrics", "/metrics?a=b", "/Metrics")
        assert {path: _call(front.port, PAGES, "GET", path)[0] for path in hidden} == dict.fromkeys(hidden, 404)
        status, page = _call(front.port, PAGES, "GET", "/login")
        assert (status, b"Hookline" in page) == (200, True)
    address = "127.0.0.1" if name == "caddy" else "203.0.113.9"  # Caddy believes nobody that it was not told to
    assert receiver.wait_for(id)[0].json["context"]["ip"] == address


@pytest.mark.parametrize("name", FRONTS)
def test_people_sign_in_over_tls(name: str, hookline: Hookline, tmp_path: Path) -> None:
    """HTTPS before, plain HTTP behind: cookies are for HTTPS alone, and forms are taken from the page's own name only.

    What a client says of the scheme counts for nothing.
    """
    tmp_path.chmod(0o755)
    form = f"password={hookline.admin_token}".encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-Proto": "http"}
    with _documented(name, hookline, tmp_path) as front:
        headers = {**kind, "Origin": f"https://{PAGES}"}
        status, _, answer = _exchange(front.port, PAGES, "POST", "/login", form, headers)
        assert (status, answer["Location"]) == (303, "/")
        cookie = answer["Set-Cookie"]
        assert "secure" in cookie.lower()
        assert answer["Strict-Transport-Security"]
        key = {"Cookie": cookie.partition(";")[0]}
        assert _call(front.port, PAGES, "GET", "/destinations", headers=key)[0] == 200
        strange = {**kind, "Origin": "https://elsewhere.example.com"}
        assert _call(front.port, PAGES, "POST", "/login", form, strange)[0] == 403


@pytest.mark.parametrize(("address", "seen"), [("192.0.2.7", "192.0.2.7"), ('"[2001:db8::7]:4711"', "2001:db8::7")])
def test_forwarded_is_believed_of_a_front_that_writes_it(
    address: str, seen: str, hookline: Hookline, receiver: Receiver, tmp_path: Path
) -> None:
    """``Forwarded`` in place of ``X-Forwarded-For``, over TLS: the client is whom nginx names, not what it says itself.

    Both headers that the client makes up are replaced.
    """
    tmp_path.chmod(0o755)
    written = f"proxy_set_header X-Forwarded-For ''; proxy_set_header Forwarded 'for={address};proto=https';"
    with _documented("nginx", hookline, tmp_path, {"proxy_set_header X-Forwarded-For [^;]*;": written}) as front:
        id = new_id()
        event = json.dumps({"type": "track", "event": "Test", "userId": "u1", "messageId": id}).encode()
        made_up = {"Forwarded": "for=203.0.113.66", "X-Forwarded-For": "203.0.113.66", "Origin": "https://example.com"}
        assert _call(front.port, EVENTS, "POST", "/v1/track", event, {**basic(WRITE_KEY), **made_up})[0] == 200
    assert receiver.wait_for(id)[0].json["context"]["ip"] == seen


def _documented(name: str, hookline: Hookline, folder: Path, changed: Mapping[str, str] | None = None) -> Front:
    """The front with the page's configuration, on ports and with certificates of this machine; patterns are changed."""
    language = {"caddy": "caddyfile"}.get(name, name)
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    front = FRONTS[name](folder, [hookline.collect_port])
    authority = Authority(folder)
    authority.server(EVENTS)
    certificate = next(file for file in folder.glob("*.pem") if file != authority.file)
    text = block.replace("127.0.0.1:8080", f"127.0.0.1:{hookline.collect_port}")
    text = text.replace("127.0.0.1:8081", f"127.0.0.1:{hookline.control_port}")
    text = re.sub(r"/etc/(?:ssl|haproxy)/\S*?(?=;|\s)", str(certificate), text)
    for pattern, replacement in (changed or {}).items():
        text = re.sub(pattern, lambda _, to=replacement: to, text)
    around = {
        "nginx": lambda: _in_nginx(front, text),
        "haproxy": lambda: text.replace("bind :443", f"bind 127.0.0.1:{front.port}"),
        "apache": lambda: _in_apache(front, text),
        "caddy": lambda: re.sub(
            r"^(\S+\.example\.com) \{",
            rf"https://\1:{front.port} {{\n    tls {certificate} {certificate}",
            text,
            flags=re.M,
        ),
    }
    configuration = around[name]()
    if name == "caddy":
        configuration = f"{{\n    admin off\n    auto_https off\n}}\n{configuration}"
    front.configuration = lambda: configuration  # type: ignore[method-assign]
    front._answers = lambda: _is_there(front)  # type: ignore[method-assign]
    return front


def _in_nginx(front: Front, text: str) -> str:
    frame = FRONTS["nginx"].configuration(front)
    begins, ends = frame.index("    upstream hookline"), frame.rindex("}")
    return frame[:begins] + text.replace("listen 443", f"listen 127.0.0.1:{front.port}") + frame[ends:]


def _in_apache(front: Front, text: str) -> str:
    modules = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in APACHE)
    (threads,) = re.findall(r"^```apacheconf\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return f"""
{modules}
ServerName localhost
Listen 127.0.0.1:{front.port}
User www-data
Group www-data
PidFile apache2.pid
DefaultRuntimeDir {front.folder}
ErrorLog /dev/stderr
{threads}
{text.replace("*:443", f"*:{front.port}")}
"""


def _is_there(front: Front) -> bool:
    assert front._process is not None
    assert front._process.poll() is None, front.log
    try:
        return _call(front.port, EVENTS, "GET", "/healthz")[0] == 200
    except OSError:
        return False


def _call(
    port: int, name: str, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Call a name at the front, as if it were at its own port; status and body."""
    return _exchange(port, name, method, path, body, headers)[:2]


def _exchange(
    port: int, name: str, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes, Message]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(name, port, timeout=30, context=context)
    connection._create_connection = lambda address, *rest: _local(port)  # type: ignore[attr-defined]
    try:
        connection.request(method, path, body, {"Host": name, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()


def _local(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)
