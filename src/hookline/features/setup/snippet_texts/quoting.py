"""A write key or an address as a string of each language: a key may hold any printable character but a colon."""

from __future__ import annotations

import json
from urllib.parse import urlsplit


def double_quoted(text: str) -> str:
    """For JavaScript, Python, Go, Java and Swift, where no other character means anything within quotes."""
    return json.dumps(text)


def in_script(text: str) -> str:
    """For JavaScript within HTML, where ``</script>`` would end it."""
    return double_quoted(text).replace("<", "\\u003c")


def single_quoted(text: str) -> str:
    """For PHP and Ruby, whose double quotes would look for variables."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def for_kotlin(text: str) -> str:
    """For Kotlin, whose double quotes look for variables, too."""
    return double_quoted(text).replace("$", "\\$")


def without_scheme(url: str) -> str:
    """Host, port and path, as SDKs want it that write the scheme themselves."""
    return url.partition("://")[2] or url


def needs_tls(url: str, comment: str) -> str:
    """Return a line that says so, for SDKs that write https themselves; empty where that is right."""
    return "" if urlsplit(url).scheme == "https" else f"{comment} This SDK speaks https only: put TLS before {url}.\n"
