"""The settings documents that SDKs fetch before they send: Segment's and RudderStack's, each the least that works.

They name this server as the only one to talk to and turn off what the SDKs would report about themselves.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from hookline.collect.limits import HOST_CHARACTERS_MAX
from hookline.settings import Settings

_encode = msgspec.json.Encoder().encode
_NAME_AND_PORT = re.compile(rb"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""A Host that is repeated to SDKs: fewer are than HTTP allows, no user name nor anything that a URL would read so."""


def segment_settings(write_key: str, base: str, maker: str) -> bytes:
    """What analytics.js and Segment's mobile SDKs ask for; ``base`` is this server as they reach it.

    Without an ``apiHost`` under their maker's name they would send events there, and without the ``sampleRate`` their
    usage counters. Only one maker is named: with a second one, browser SDKs first load more of themselves, from where
    their maker keeps it.
    """
    split = urlsplit(base)
    host = f"{split.netloc}{split.path}/v1"
    return _encode(
        {
            "integrations": {maker: {"apiKey": write_key, "apiHost": host, "protocol": split.scheme}},
            "plan": {},
            "metrics": {"sampleRate": 0, "host": host, "protocol": split.scheme},
        }
    )


def source_config(source_id: str) -> bytes:
    """What RudderStack's SDKs ask for: a source that is on, with no destinations to load and nothing to report."""
    silent = {"errors": {"enabled": False}, "metrics": {"enabled": False}}
    source = {"id": source_id, "name": source_id, "enabled": True}
    return _encode({"source": {**source, "config": {"statsCollection": silent}, "destinations": []}})


def base_url(settings: Settings, host: bytes) -> str:
    """This server as SDKs reach it: the public address, else the Host they asked, else the one listened on."""
    if settings.collect.public_url:
        return settings.collect.public_url.rstrip("/")
    if len(host) <= HOST_CHARACTERS_MAX and _NAME_AND_PORT.fullmatch(host):
        return f"http://{host.decode('ascii')}"
    return f"http://{settings.collect.listen}"
