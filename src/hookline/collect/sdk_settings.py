"""The settings documents that SDKs fetch before they send: Segment's and RudderStack's, each the least that works.

They name this server as the only one to talk to and turn off what the SDKs would report about themselves.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from hookline.collect.limits import HOST_CHARACTERS_MAX
from hookline.settings import Settings

_encode = msgspec.json.Encoder().encode


def segment_settings(write_key: str, base: str) -> bytes:
    """What analytics.js and Segment's mobile SDKs ask for; ``base`` is this server as they reach it.

    Without an ``apiHost`` they would send events to Segment, and without the ``sampleRate`` their usage counters.
    """
    split = urlsplit(base)
    host = f"{split.netloc}{split.path}/v1"
    return _encode(
        {
            "integrations": {"Segment.io": {"apiKey": write_key, "apiHost": host, "protocol": split.scheme}},
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
    if 0 < len(host) <= HOST_CHARACTERS_MAX:
        return f"http://{host.decode('ascii')}"
    return f"http://{settings.collect.listen}"
