"""What of a web request goes into the context of calls, the same for every framework.

Queries are left out of addresses: links to reset a password and the like carry secrets there. The address of the client
is that of the connection; behind a proxy that is the framework's to put right.
"""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import unquote

TEXT_CHARACTERS_MAX = 1024
"""A header that somebody made long does not make events too large."""
LOCALE_CHARACTERS_MAX = 35
ANONYMOUS_COOKIE = "ajs_anonymous_id"
"""Where analytics.js keeps the anonymous id, so that calls of the browser and of the server belong together."""


def request_context(
    *,
    url: str,
    path: str,
    ip: str | None = None,
    user_agent: str | None = None,
    referrer: str | None = None,
    language: str | None = None,
) -> dict[str, Any]:
    """The context of a request; what is not known is left out."""
    page = {"url": _bare(url), "path": _bare(path), "referrer": _bare(referrer or "")}
    locale = (language or "").split(",")[0].split(";")[0].strip()[:LOCALE_CHARACTERS_MAX]
    context = {
        "ip": ip,
        "userAgent": (user_agent or "")[:TEXT_CHARACTERS_MAX],
        "locale": "" if locale == "*" else locale,
        "page": {name: value for name, value in page.items() if value},
    }
    return {name: value for name, value in context.items() if value}


def anonymous_id(cookie: str | None) -> str:
    """The anonymous id that the browser's cookie holds, or a new one: the calls of one request belong together."""
    text = unquote(cookie or "")
    if text.startswith('"'):  # older ones hold JSON
        try:
            text = str(json.loads(text))
        except ValueError:
            text = ""
    return text[:TEXT_CHARACTERS_MAX] or str(uuid.uuid4())


def _bare(address: str) -> str:
    return address.partition("#")[0].partition("?")[0][:TEXT_CHARACTERS_MAX]
