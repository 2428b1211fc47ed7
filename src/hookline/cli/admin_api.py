"""A small client of the admin API for the commands; every failure is a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from hookline.settings import parse_listen

if TYPE_CHECKING:  # else only where something is asked: a quarter of the time of --help
    import http.client

Json = Any
"""Free-form JSON."""

TIMEOUT_SECONDS = 30.0
PAGE = 200
ANSWER_BYTES_MAX = 64 * 1024 * 1024
AWAY = (502, 503, 504)
"""Answers of the server, or of a proxy in front of it, while it starts."""
LISTS = {
    "source": "sources",
    "destination": "destinations",
    "audience": "audiences",
    "computed trait": "computed-traits",
    "notification": "notifications",
    "notice": "notices",
    "replay": "replay",
    "dead letter": "dead-letters",
    "deletion request": "deletion-requests",
}
"""The commands that list what an id is of."""


class CommandFailed(Exception):
    """A command could not do its work; printed to standard error as it is, without a traceback."""

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def reason_of(error: Exception) -> str:
    """Return what an error says; of a file that somebody else owns, also what to do."""
    if isinstance(error, PermissionError) and error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}; run this as the owner of the data folder"
    return str(error)


class NotFound(CommandFailed):
    """The object asked for does not exist."""


class NoAnswer(CommandFailed):
    """The server cannot be reached, or is not ready: trying again may help."""


class AdminApi:
    """Requests to one server; a connection per request."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        # What a secret's file or a manifest ends with is no part of it. The rest is looked at here: the HTTP library
        # would quote it in its error.
        self._token = token.strip()
        if not (self._token.isascii() and self._token.isprintable()):
            where = "see --token, HOOKLINE_CONTROL_ADMIN_TOKEN and control.admin_token"
            raise CommandFailed(f"the token has characters that no token has; {where}", exit_code=2)

    def get(self, path: str, **query: str | int | None) -> Json:
        """GET ``/api/v1`` + path."""
        given = {name: value for name, value in query.items() if value is not None}
        return self.request("GET", path + (f"?{urlencode(given)}" if given else ""))

    def request(self, method: str, path: str, body: Json = None, timeout_seconds: float = TIMEOUT_SECONDS) -> Json:
        """Send one request and return the answer's JSON, or its text when it is not JSON."""
        if "" in path.partition("?")[0].split("/")[1:]:  # it would be the list, or another call
            raise CommandFailed("an id or a name is empty; write it", exit_code=2)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        status, content_type, data = exchange(self.url + "/api/v1" + path, method, payload, headers, timeout_seconds)
        answer = _decoded(content_type, data)
        if not 200 <= status < 300 or content_type.startswith("text/html"):
            raise self._failure(status, method, path, answer)
        return answer

    def open(self, path: str, headers: dict[str, str], silence_seconds: float) -> http.client.HTTPResponse:
        """GET ``/api/v1`` + path and return the answer unread; no part of it may take longer than the silence."""
        import http.client

        connection = _connection(self.url, silence_seconds)
        every = {"Authorization": f"Bearer {self._token}", **headers}
        try:
            connection.request("GET", urlsplit(self.url).path + "/api/v1" + path, headers=every)
            answer = connection.getresponse()
            if answer.status == 200:
                return answer
            data = answer.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise _no_answer(self.url, error) from None
        failure = self._failure(answer.status, "GET", path, _decoded(answer.getheader("Content-Type", ""), data))
        raise NoAnswer(str(failure)) if answer.status in AWAY else failure

    def sources(self) -> list[Json]:
        """Every source (pages of 200)."""
        return self.every("/sources")

    def newest(self, path: str, limit: int, **query: str | int | None) -> list[Json]:
        """The first items of a list, at most so many; raises NotFound where there are none because a source or a
        destination that is asked for does not exist."""
        if limit < 1:
            raise CommandFailed(f"--limit: write a whole number from 1, not {limit}", exit_code=2)
        items: list[Json] = []
        after: str | None = None
        while len(items) < limit:
            page = self.get(path, limit=min(PAGE, limit - len(items)), after=after, **query)
            items += page["items"]
            after = page["after"]
            if after is None:
                break
        if not items:
            self._require_known(query)
        return items

    def _require_known(self, query: Mapping[str, str | int | None]) -> None:
        for name in ("source", "destination"):
            if query.get(name) is not None:
                try:
                    self.get(f"/{name}s/{quote(str(query[name]), safe='')}")
                except NotFound:
                    raise NotFound(f"there is no {name} {query[name]!r}; see hookline {name}s list") from None

    def every(self, path: str) -> list[Json]:
        """Every item of a list."""
        items: list[Json] = []
        after: str | None = None
        while True:
            page = self.get(path, limit=PAGE, after=after)
            items.extend(page["items"])
            after = page.get("after")
            if after is None:
                return items

    def _failure(self, status: int, method: str, path: str, answer: Json) -> CommandFailed:
        if status == 401:
            reason = str(answer.get("detail", "")) if isinstance(answer, dict) else ""
            return CommandFailed(f"{reason or 'The token is not valid.'} Give the right one with --token.")
        sentence = str(answer.get("detail") or answer.get("title") or "") if isinstance(answer, dict) else ""
        if not sentence:
            return CommandFailed(
                f"{method} {path} was answered {status} by something that is not Hookline's admin API; correct --api"
                f" ({self.url}), and see whether a proxy asks for a sign-in there"
            )
        unknown = re.fullmatch(r"There is no ([a-z ]+) with the id .*", sentence, re.DOTALL)
        if unknown is not None and unknown[1] in LISTS:
            sentence += f" See hookline {LISTS[unknown[1]]} list."
        if status == 500:
            sentence += f" Instance: {answer.get('instance')}"
        for error in answer.get("errors") or []:
            place, what = error.get("pointer", ""), str(error.get("detail", ""))
            if what not in sentence:  # the only one is often the sentence already
                sentence += f"\n  {place}: {what}" if place else f"\n  {what}"
        return NotFound(sentence) if status == 404 else CommandFailed(sentence)


def exchange(
    url: str, method: str, body: bytes | None, headers: dict[str, str], timeout_seconds: float = TIMEOUT_SECONDS
) -> tuple[int, str, bytes]:
    """One HTTP exchange: status, content type and body; raise CommandFailed when the server cannot be reached."""
    import http.client

    connection = _connection(url, timeout_seconds)
    parts = urlsplit(url)
    try:
        connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), body, headers)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), response.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise _no_answer(url, error) from None
    finally:
        connection.close()


def _connection(url: str, timeout_seconds: float) -> http.client.HTTPConnection:
    import http.client
    import ssl

    require_address(url)
    place = url
    try:
        parts = urlsplit(url)
        place = f"{parts.scheme}://{parts.netloc}"
        (parts.hostname or "").encode("idna")  # as connecting does, whose error would name a codec alone
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.netloc, timeout=timeout_seconds, context=context)
        return http.client.HTTPConnection(parts.netloc, timeout=timeout_seconds)
    except (http.client.InvalidURL, ValueError) as error:
        raise CommandFailed(f"{place} is no address ({error}); write one as http://127.0.0.1:8081", 2) from None


def require_address(url: str) -> None:
    """Raise CommandFailed for what begins like no address: ``localhost:8081`` has a scheme and no host."""
    if not re.fullmatch(r"https?://[^/].*", url, re.IGNORECASE | re.DOTALL):
        raise CommandFailed(f"{url} is no address; write one as http://127.0.0.1:8081", exit_code=2)


def _no_answer(url: str, error: Exception) -> NoAnswer:
    import ssl

    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}"
    if isinstance(error, TimeoutError):
        return NoAnswer(
            f"Hookline at {place} has not answered in time. What this was to change may have been changed: look before"
            " you repeat it."
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"the certificate of {place} is not trusted ({error.verify_message})"
        return NoAnswer(f"{why}; set SSL_CERT_FILE to the certificate of its issuer.")
    return NoAnswer(
        f"no answer from Hookline at {place} ({error}); is it running (hookline up), and is that its address?"
    )


def _decoded(content_type: str, data: bytes) -> Json:
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text) if "json" in content_type and text else text
    except ValueError:
        return text


WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def url_of(listen: str) -> str:
    """The URL at which a listening address can be reached from this machine."""
    host, port = parse_listen(listen)
    host = WILDCARD_HOSTS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(url: str) -> bool:
    """Return whether a URL stays on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_same_port(url: str, local: str) -> bool:
    """Return whether a URL leads to the port that a server of this machine listens on, at ``local``."""
    try:
        named, own = urlsplit(url), urlsplit(local)
        if (named.scheme, named.port) != (own.scheme, own.port):
            return False
    except ValueError:
        return False
    return named.hostname == own.hostname or (is_loopback(url) and is_loopback(local))
