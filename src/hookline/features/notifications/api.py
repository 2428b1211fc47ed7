"""``/api/v1/notifications``: the rules that send notices to people, a test of each, and what they sent."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from litestar import Controller, Response, delete, get, patch, post, put
from litestar.params import JSONBody, QueryParameter

from hookline.api.calls import the_call
from hookline.api.handlers import FromServices
from hookline.api.listing import After, Id, Limit, Listing, Patch, by_id, number_after, tagged
from hookline.api.problem import FieldError, Problem, not_found
from hookline.api.services import Services
from hookline.connections.notification_secrets import hidden
from hookline.connections.notifications import Notification
from hookline.connections.receiver_url import parse_receiver_url
from hookline.connections.state import Stored
from hookline.deliver.send.resolver import Guard
from hookline.features.connections.api.objects import (
    converted,
    create_object,
    created,
    delete_object,
    merged,
    object_tag,
    patch_object,
    replace_object,
)
from hookline.features.notifications.log import SentMessage, message_log
from hookline.features.notifications.service import notification_watch


class ChannelTest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a test message at one channel. ``error`` says why it was not accepted, and by whom."""

    channel: str
    to: str
    sent: bool
    failed: bool
    error: str | None
    milliseconds: int


class NotificationTest(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a test at every channel of a notification."""

    channels: list[ChannelTest]


class Notifications(Controller):
    """The rules; their secrets are masked."""

    path = "/notifications"

    @get(needs="viewer")
    async def list_notifications(
        self, services: FromServices, limit: Limit = 50, after: After = None
    ) -> Listing[Notification]:
        """List the notifications by id."""
        rules: list[Notification] = [hidden(stored.object) for stored in services.store.in_force("notification")]
        return by_id(rules, [each.id for each in rules], limit, after)

    @post(needs="editor")
    async def create_notification(self, services: FromServices, data: JSONBody[Notification]) -> Response[Notification]:
        """Create a notification. It also reports notices that are already open."""
        refuse_inside(services, data)
        made = create_object(services, data)
        return created(hidden(made.object), made.since, "notifications")

    @get("/{id:str}", needs="viewer", tagged=True)
    async def get_notification(self, services: FromServices, object_id: Id) -> Response[Notification]:
        """Return one notification."""
        stored = stored_notification(services, object_id)
        return tagged(hidden(stored.object), object_tag(stored.since))

    @put("/{id:str}", needs="editor", tagged=True)
    async def put_notification(
        self, services: FromServices, object_id: Id, data: JSONBody[Notification]
    ) -> Response[Notification]:
        """Create or replace a notification. `keep`, or the mask shown by the API, leaves a stored secret unchanged."""
        refuse_inside(services, data)
        stored: Stored[Notification] | None = services.store.stored("notification", object_id)
        replaced = replace_object(services, object_id, data, stored)
        if stored is None:
            return created(hidden(replaced.object), replaced.since, "notifications")
        return tagged(hidden(replaced.object), object_tag(replaced.since))

    @patch("/{id:str}", needs="editor", tagged=True)
    async def patch_notification(self, services: FromServices, object_id: Id, data: Patch) -> Response[Notification]:
        """Change some fields of a notification (JSON Merge Patch, RFC 7396: null removes, lists are replaced)."""
        stored = stored_notification(services, object_id)
        refuse_inside(services, converted(merged(msgspec.to_builtins(stored.object), data), Notification))
        patched = patch_object(services, stored, data)
        return tagged(hidden(patched.object), object_tag(patched.since))

    @delete("/{id:str}", needs="editor", tagged=True)
    async def delete_notification(self, services: FromServices, object_id: Id) -> None:
        """Delete a notification. It sends nothing more, not even that something is over."""
        delete_object(services, "notification", services.store.stored("notification", object_id), object_id)

    @post("/{id:str}/test", status_code=200, needs="editor")
    async def test_notification(self, services: FromServices, object_id: Id) -> NotificationTest:
        """Send a test message to every channel of a notification now, even in quiet hours, and return the results."""
        rule = stored_notification(services, object_id).object
        the_call().target = f"notifications/{rule.id}"
        watch = notification_watch(services)
        results = await asyncio.gather(*(watch.test(rule, channel) for channel in rule.channels))
        return NotificationTest(
            channels=[
                ChannelTest(
                    channel=channel.kind,
                    to=channel.shown,
                    sent=result.error is None,
                    failed=result.error is not None,
                    error=result.error or result.note,
                    milliseconds=took_ms,
                )
                for channel, (result, took_ms) in zip(rule.channels, results, strict=True)
            ]
        )


class NotificationMessages(Controller):
    """Hold what the rules sent, or could not."""

    path = "/notification-messages"

    @get(needs="viewer")
    async def list_notification_messages(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        notification: Annotated[
            str | None, QueryParameter(max_length=100, description="Only messages of this notification.")
        ] = None,
    ) -> Listing[SentMessage]:
        """List the newest messages of notifications, with their outcomes."""
        found = message_log(services).newest(limit + 1, number_after(after), notification)
        return Listing(found[:limit], str(found[limit - 1].id) if len(found) > limit else None)


def refuse_inside(services: Services, rule: Notification) -> None:
    """Raise Problem for a URL that is plainly no public address: it would be refused with each message. What a name
    leads to is known when something is sent, and looked at then."""
    guard = Guard(services.settings.deliver.allow_networks)
    errors: list[FieldError] = []
    for index, channel in enumerate(rule.channels):
        given = {"slack": channel.slack, "webhook": channel.webhook}
        for kind, target in given.items():
            try:
                url = None if target is None else parse_receiver_url(target.url)
            except ValueError:  # a mask or a reference, or told with everything else that is wrong
                continue
            refusal = None if url is None else (guard.refusal if url.is_ip else guard.name_refusal)(url.host)
            if refusal is not None:
                errors.append(FieldError(f"/to/{index}/{kind}/url", refusal))
    if errors:
        raise Problem(422, "blocked_address", f"{errors[0].detail}.", errors)


def stored_notification(services: Services, object_id: str) -> Stored[Notification]:
    """Return the notification with this id; raise Problem when there is none."""
    stored: Stored[Notification] | None = services.store.stored("notification", object_id)
    if stored is None:
        raise not_found("notification", object_id)
    return stored
