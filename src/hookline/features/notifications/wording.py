"""What a notification says, in plain words, and in the forms of e-mail, Slack and webhooks.

The content is put together once, when something happens, and kept as it is until every channel has it. What it quotes
(names of destinations, answers of receivers) is hostile: control characters go, and each form escapes the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from hookline.events.timestamps import iso, split_at_times
from hookline.telemetry.notices import KINDS, headline, page_of

ITEMS_SHOWN_MAX = 10
TITLE_CHARACTERS_MAX = 150
"""As long as a header of Slack may be."""
TEXT_CHARACTERS_MAX = 1_500
SLACK_CHARACTERS_MAX = 3_000
"""Of one section as it is sent, escaped: Slack refuses the whole message where one is longer."""
BODY_VERSION = 1
SEVERITIES = ("info", "warning", "critical")

_CUT_ENTITY = re.compile(r"&[a-z]{0,3}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]+")


class Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One notice in a message. Times are ISO 8601; ``over_at`` is None while it lasts."""

    kind: str
    subject: str
    severity: str
    headline: str
    message: str
    next_step: str
    count: int
    since: str
    over_at: str | None
    link: str


class Content(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All that a message says. ``token`` is the same in all messages about one outage; ``more`` is how many notices
    are left out."""

    what: str
    notification: str
    name: str
    title: str
    text: str
    severity: str
    items: tuple[Item, ...] = ()
    more: int = 0
    at: str
    zone: str
    link: str
    token: str


Key = tuple[str, str]


class OutageNotice(NamedTuple):
    """One notice as part of what a rule speaks of; ``gone_ms`` is when it was over, ``total`` how many events."""

    kind: str
    subject: str
    severity: str
    message: str
    next_step: str
    total: int
    since_ms: int
    gone_ms: int | None = None

    @property
    def key(self) -> Key:
        """Return what tells it from the others."""
        return self.kind, self.subject


def content_of(
    what: str, rule: str, name: str, notices: Sequence[OutageNotice], *, now_ms: int, zone: str, pages: str, token: str
) -> Content:
    """Put together what a message says of these notices; ``pages`` is where the pages are."""
    ordered = sorted(
        notices, key=lambda each: (each.gone_ms is not None, -SEVERITIES.index(each.severity), each.since_ms)
    )
    items = tuple(_item(each, pages) for each in ordered[:ITEMS_SHOWN_MAX])
    title, text = _said(what, name, ordered, now_ms, zone)
    return Content(
        what=what,
        notification=rule,
        name=plain(name),
        title=plain(title)[:TITLE_CHARACTERS_MAX],
        text=text,
        severity=max((each.severity for each in notices), key=SEVERITIES.index, default="info"),
        items=items,
        more=len(ordered) - len(items),
        at=iso(now_ms),
        zone=zone,
        link=f"{pages}/notices" if what != "test" else f"{pages}/settings/notifications/{rule}",
        token=token,
    )


def plain(text: str) -> str:
    """Return a text as one line, without what could end a header or turn the direction of writing."""
    return _CONTROL.sub(" ", text).strip()


def _item(notice: OutageNotice, pages: str) -> Item:
    path = page_of(notice.kind, notice.subject)
    return Item(
        kind=notice.kind,
        subject=notice.subject,
        severity=notice.severity,
        headline=plain(headline_of(notice)),
        message=plain(notice.message)[:TEXT_CHARACTERS_MAX],
        next_step=notice.next_step,
        count=notice.total,
        since=iso(notice.since_ms),
        over_at=None if notice.gone_ms is None else iso(notice.gone_ms),
        link=f"{pages}{path}" if path else "",
    )


def headline_of(notice: OutageNotice) -> str:
    """Return what a notice says before its details."""
    return headline(notice.kind, notice.subject, notice.total) if notice.kind in KINDS else notice.message


def _said(what: str, name: str, notices: Sequence[OutageNotice], now_ms: int, zone: str) -> tuple[str, str]:
    """Return the title and the first sentence."""
    if what == "test":
        text = "If you can read this, this channel works. Nothing is wrong, and there is nothing to do."
        return f"Test of the notification “{name}”", text
    if not notices:
        return "Nothing is open", ""
    if what == "summary":
        lasting = [each for each in notices if not _is_passing(each.kind)]
        still, came = sum(each.gone_ms is None for each in lasting), len(notices) - len(lasting)
        over = len(lasting) - still
        counts = [_counted(still, "is still open", "are still open")] if still else []
        counts += [_counted(came, "came in", "came in")] if came else []
        counts += [_counted(over, "has been resolved", "have been resolved")] if over else []
        return f"During quiet hours: {', '.join(counts)}", ""
    first = notices[0]
    others = f" (and {len(notices) - 1} more)" if len(notices) > 1 else ""
    if what == "recovered":
        begun, over_ms = min(each.since_ms for each in notices), max(each.gone_ms or now_ms for each in notices)
        span = f"from {clock(begun, zone)} to {clock(over_ms, zone)}"
        return f"Resolved: {headline_of(first)}{others}", f"It lasted {lasting_words(over_ms - begun)}, {span}."
    if what == "reminder":
        return f"Still: {headline_of(first)}{others}", f"This has lasted for {lasting_words(now_ms - first.since_ms)}."
    return f"{headline_of(first)}{others}", ""


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} notice {one}" if count == 1 else f"{count} notices {many}"


def lasting_words(ms: int) -> str:
    """Return a span of time in its two largest units."""
    seconds = max(0, ms // 1000)
    found = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            found.append(f"{count} {unit}")
    return " ".join(found[:2]) or "0 s"


def clock(ms: int, zone: str) -> str:
    """Return a time as people of a time zone write it."""
    return datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).strftime("%a %-d %b %Y, %H:%M %Z")


def local(text: str, zone: str) -> str:
    """Return a text with its ISO times written for a time zone."""
    parts = split_at_times(text)
    parts[1::2] = [_clock_of(part, zone) for part in parts[1::2]]
    return "".join(parts)


def _clock_of(text: str, zone: str) -> str:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return clock(int(at.astimezone(UTC).timestamp() * 1000), zone)


def plain_text(content: Content) -> str:
    """Return the message as text."""
    lines = [content.title, *([content.text] if content.text else []), ""]
    for item in content.items:
        lines += [f"* {_words(item, content.zone)}", f"  {_times(item, content.zone)}"]
        if item.over_at is None:
            lines.append(f"  Next: {item.next_step}")
        lines += [f"  {item.link}", ""] if item.link else [""]
    if content.more:
        lines += [f"And {content.more} more.", ""]
    return "\n".join([*lines, f"All notices: {content.link}" if content.items else content.link, _signed(content)])


def html_text(content: Content) -> str:
    """Return the message as HTML without any style that a mail reader could break."""
    parts = [f"<h2>{escape(content.title)}</h2>"]
    if content.text:
        parts.append(f"<p>{escape(content.text)}</p>")
    for item in content.items:
        parts.append(f"<p><strong>{escape(_words(item, content.zone))}</strong><br>")
        parts.append(escape(_times(item, content.zone)))
        if item.over_at is None:
            parts.append(f"<br>Next: {escape(item.next_step)}")
        if item.link:
            parts.append(f'<br><a href="{escape(item.link)}">{escape(_verb(item))}</a>')
        parts.append("</p>")
    if content.more:
        parts.append(f"<p>And {content.more} more.</p>")
    word = "All notices" if content.items else "Open Hookline"
    parts.append(f'<p><a href="{escape(content.link)}">{word}</a></p><p><small>{escape(_signed(content))}</small></p>')
    return f'<!doctype html><html lang="en"><body>{"".join(parts)}</body></html>'


def slack_body(content: Content) -> dict[str, Any]:
    """Return the message as Slack's Block Kit; every text is escaped as Slack asks for it."""
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": content.title, "emoji": False}}
    ]
    if content.text:
        blocks.append(_section(_slack(content.text)))
    for item in content.items:
        lines = ["", _slack(_times(item, content.zone))]
        if item.over_at is None:
            lines.append(f"Next: {_slack(item.next_step)}")
        if item.link:
            lines.append(f"<{_slack(item.link)}|{_slack(_verb(item))}>")
        rest = "\n".join(lines)
        words = _slack(_words(item, content.zone), SLACK_CHARACTERS_MAX - len(rest) - 2)
        blocks.append(_section(f"*{words}*{rest}"))
    if content.more:
        blocks.append(_section(f"And {content.more} more."))
    word = "All notices" if content.items else "Open Hookline"
    context = f"<{_slack(content.link)}|{word}> · {_slack(_signed(content))}"
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": context}]})
    return {"text": _slack(content.title), "blocks": blocks}


def webhook_body(content: Content, message_id: str) -> dict[str, Any]:
    """Return the message as a webhook gets it."""
    return {
        "version": BODY_VERSION,
        "type": "notification",
        "id": message_id,
        "what": content.what,
        "notification": content.notification,
        "name": content.name,
        "outage": content.token,
        "severity": content.severity,
        "title": content.title,
        "text": content.text,
        "at": content.at,
        "link": content.link,
        "notices": msgspec.to_builtins(content.items),
        "more": content.more,
    }


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _slack(text: str, characters_max: int = SLACK_CHARACTERS_MAX) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped if len(escaped) <= characters_max else f"{_CUT_ENTITY.sub('', escaped[: characters_max - 1])}…"


def _words(item: Item, zone: str) -> str:
    """Return what is so; of what is over only what it was: that events wait, say, is no longer true."""
    return item.headline if item.over_at is not None and not _is_passing(item.kind) else local(item.message, zone)


def _is_passing(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].passing


def _times(item: Item, zone: str) -> str:
    severity = item.severity.capitalize()
    if _is_passing(item.kind):
        return f"{severity}, at {_clock_of(item.since, zone)}"
    if item.over_at is None:
        return f"{severity}, since {_clock_of(item.since, zone)}"
    return f"Resolved: from {_clock_of(item.since, zone)} to {_clock_of(item.over_at, zone)}"


def _verb(item: Item) -> str:
    known = KINDS.get(item.kind)
    return known.page[0] if known is not None and known.page is not None else "Open"


def _signed(content: Content) -> str:
    return f"Sent by the notification “{content.name}” ({content.notification})."
