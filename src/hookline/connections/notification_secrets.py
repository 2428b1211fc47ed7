"""What of a notification rule is secret: shown as a mask, kept where nobody writes it anew, gone from old history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from hookline.connections.notifications import Channel, Notification, SlackChannel
from hookline.connections.receiver_url import origin_of
from hookline.connections.secrets import KEEP, NothingToKeep, stands_for_stored
from hookline.secret_references import is_reference, mask


class _Place(NamedTuple):
    """Say where a secret stands, and the URL that it signs for; empty for what is a URL itself."""

    path: str
    url: str


def hidden(rule: Notification, keep: bool = False) -> Notification:
    """Return the rule with its secrets masked, or with ``keep`` in their place."""

    def shown(secret: str) -> str:
        return KEEP if keep and not is_reference(secret) else mask(secret)

    return _with_secrets(rule, lambda secret, _: shown(secret))


def restored(rule: Notification, stored: Notification | None) -> Notification:
    """Return the rule with each ``keep`` and each mask replaced by the secret it stands for; raise NothingToKeep.

    A secret to sign with is kept only for a URL of the same origin, so that it never signs for another unseen.
    """
    before = () if stored is None else stored.channels
    slack = [channel.slack.url for channel in before if channel.slack is not None]
    signed = [
        (channel.webhook.url, channel.webhook.secret)
        for channel in before
        if channel.webhook is not None and channel.webhook.secret is not None
    ]
    # Several of Slack are kept in their order; with another number of them, which is which is not certain.
    kept = iter(slack if len(slack) == sum(channel.slack is not None for channel in rule.channels) else ())

    def found(value: str, place: _Place) -> str:
        path, url = place
        if not stands_for_stored(value):
            return value
        same_url = [secret for other, secret in signed if other == url]
        same_origin = [secret for other, secret in signed if origin_of(other) == origin_of(url)]
        same_url = [secret for other, secret in signed if other == url]
        same_origin = [secret for other, secret in signed if origin_of(other) == origin_of(url)]
        candidates = slack if not url else same_url or same_origin
        if value != KEEP:
            candidates = [secret for secret in candidates if mask(secret) == value]
        elif not url:
            candidates = [secret for secret in [next(kept, None)] if secret is not None]
        if not candidates or (url and len(set(candidates)) > 1):  # several may be meant
            raise NothingToKeep(path)
        return candidates[0]

    return _with_secrets(rule, found)


def without_secrets(rule: Notification) -> Notification:
    """Return the rule as its history keeps it once its secrets are not needed any more."""
    return _with_secrets(rule, lambda secret, _: secret if is_reference(secret) else KEEP)


def new_rule_references(rule: Notification, stored: Notification | None) -> Iterator[str]:
    """Yield the paths of references to secrets that the stored rule does not hold already."""
    held = set() if stored is None else {value for _, value in _references(stored)}
    yield from (path for path, value in _references(rule) if value not in held)


def _references(rule: Notification) -> Iterator[tuple[str, str]]:
    for index, channel in enumerate(rule.channels):
        if channel.slack is not None and is_reference(channel.slack.url):
            yield f"to[{index}].slack.url", channel.slack.url
        if channel.webhook is not None and channel.webhook.secret and is_reference(channel.webhook.secret):
            # With the URL: a secret that may sign for one receiver may not be made to sign for another.
            yield f"to[{index}].webhook.secret", f"{channel.webhook.secret} {origin_of(channel.webhook.url)}"


def _with_secrets(rule: Notification, changed: Callable[[str, _Place], str]) -> Notification:
    channels: list[Channel] = []
    for index, channel in enumerate(rule.channels):
        if channel.slack is not None:
            url = changed(channel.slack.url, _Place(f"to[{index}].slack.url", ""))
            channel = replace(channel, slack=SlackChannel(url=url))
        elif channel.webhook is not None and channel.webhook.secret is not None:
            secret = changed(channel.webhook.secret, _Place(f"to[{index}].webhook.secret", channel.webhook.url))
            channel = replace(channel, webhook=replace(channel.webhook, secret=secret))
        channels.append(channel)
    return replace(rule, to=tuple(channels))
