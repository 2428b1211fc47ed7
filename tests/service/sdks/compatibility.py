"""docs/reference/compatibility.md: what each SDK sent and what arrived, as measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.service.sdks.field import Run
from tests.service.sdks.said import SAID, said_by
from tests.service.sdks.sdk import ROOT
from tests.service.sdks.wire import Message

PAGE = ROOT / "docs/reference/compatibility.md"

HEAD = """\
# Compatibility

Each SDK below ran with only its host changed, and made the same {calls} calls: identify, track, page, screen, group and
alias, with a known and with an anonymous user, special characters, nested objects, times, and `integrations` that
exclude all destinations (one call) or all but webhooks (another). The clocks of the SDKs were an hour behind, except
for Go and Java, whose clocks cannot be set apart from the machine's. The test (`tests/service/sdks`) generates the
table and fails when its measurements differ; `pytest tests/service/sdks --write-compatibility` writes the table again.

Unless a remark says otherwise, each call arrived once, with: type, names, userId and anonymousId, every property, trait
and context field unchanged, `context.library`, the SDK's own messageId as `X-Message-Id`, the time to the millisecond
(corrected for the clock error if `sentAt` shows one of more than five seconds), and a valid `X-Signature`.

| SDK | Version | Calls posted to | Key in | Packed | Arrived | Remarks |
|---|---|---|---|---|---|---|
"""

TAIL = """
- *Arrived* counts the calls that should arrive. Hookline did not forward the call that excludes all destinations.
- *Packed* is gzip by the SDK's default.
- Calls from browsers also got the browser's address as `context.ip` ([when](collection.md#addresses)).
- *adds* lists what the SDK itself puts into a call. *omits* lists what its calls have no place for.
- At high volume, RudderStack's SDKs send batches of up to 4 MiB, and drop batches that are refused. Let their source
  accept them with `batchBytes: 4194304` ([limits](collection.md#limits)).
- The test runs the PHP and Ruby SDKs if their registries can be reached. Otherwise it sends the bytes they sent.
"""


def page(runs: Iterable[Run]) -> str:
    """The whole page."""
    return HEAD.format(calls=len(SAID)) + "".join(f"| {' | '.join(_row(run))} |\n" for run in runs) + TAIL


def _row(run: Run) -> list[str]:
    sdk = run.sdk
    paths = sorted({post.path.partition("?")[0] for post in run.posts})
    packed = {post.headers.get("content-encoding", "no") for post in run.posts}
    return [
        sdk.package,
        sdk.version,
        ", ".join(f"`{path}`" for path in paths),
        ", ".join(sorted({place for post in run.posts for place in _key_places(post)})),
        ", ".join(sorted(packed)),
        f"{len(run.received)} of {len(said_by(sdk)) - 1}",
        "; ".join(_remarks(run)) or "–",
    ]


def _key_places(post: Message) -> list[str]:
    places = {
        "header": "authorization" in post.headers,
        "body": "writeKey" in post.json,
        "query": "writeKey=" in post.path,
    }
    return [place for place, is_there in places.items() if is_there]


def _remarks(run: Run) -> list[str]:
    sdk, found = run.sdk, []
    if sdk.without:
        found.append(f"has no {sdk.without} call")
    name, version = sdk.library
    if sdk.version not in version:
        found.append(f"reports itself as {name} {version}")
    if sdk.times != "milliseconds":
        found.append(f"truncates times to {sdk.times}")
    if any(_is_null(path) for path in sdk.lacks):
        found.append("omits null values")
    for kind, words in (("missing", "omits"), ("changed", "changes"), ("added", "adds")):
        paths = _paths(run, kind)
        if paths:
            found.append(f"{words} {', '.join(paths)}")
    return found


def _is_null(path: str) -> bool:
    kind, _, way = path.partition(" ")
    found: Any = next(call for call in SAID.values() if call["type"] == kind)
    for name in way.split("."):
        found = found[name]
    return found is None


def _paths(run: Run, kind: str) -> list[str]:
    """The paths that differ in this way, each with the types of call where it does if those are not all."""
    types: dict[str, list[str]] = {}
    names = [name for name in SAID if name in run.received]
    for name in names:
        type_ = SAID[name]["type"]
        for path, what in run.differences(name).items():
            if what == kind and not (kind == "missing" and _is_null(f"{type_} {path}")):
                types.setdefault(path, []).append(type_)
    every = {SAID[name]["type"] for name in names}
    return [
        f"`{path}`" if set(where) == every else f"`{path}` ({', '.join(dict.fromkeys(where))})"
        for path, where in types.items()
    ]
