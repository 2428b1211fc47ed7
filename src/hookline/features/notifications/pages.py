"""The pages of notifications: the list, one rule with what it sent, and the form."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote
from zoneinfo import available_timezones

from litestar import Controller, Request, Response, get
from litestar.params import FromPath

from hookline.api.handlers import FromServices
from hookline.api.listing import After, number_after
from hookline.api.services import Services
from hookline.connections.notification_secrets import hidden
from hookline.connections.notifications import DAYS, Channel, Notification
from hookline.connections.state import Stored
from hookline.features.connections.api.objects import object_tag
from hookline.features.notices.log import Notice
from hookline.features.notices.service import notice_log
from hookline.features.notifications.log import SentMessage, message_log
from hookline.features.settings.pages import tabs
from hookline.telemetry.notices import TRIGGERS
from hookline.web.lists import address, by_name
from hookline.web.rendering import Screens, screen, unknown

PATH = "/settings/notifications"
MESSAGES_ON_A_PAGE = 25
FILTERS_SHOWN = 300
"""Destinations and sources offered in the form; those that are chosen come first."""
STATES = {
    "sent": ("good", "●", "sent"),
    "queued": ("wait", "◔", "queued"),
    "failed": ("dead", "■", "failed"),
    "replaced": ("off", "○", "replaced"),
}
SHARES = (("", "Not judged"), ("0.05", "5 %"), ("0.1", "10 %"), ("0.2", "20 %"), ("0.5", "50 %"))
DAY_NAMES = dict(zip(DAYS, ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"), strict=True))

PageRequest = Request[Any, Any, Any]


class RuleRow(NamedTuple):
    """One rule of the list; ``last`` is its newest message."""

    rule: Notification
    href: str
    mark: tuple[str, str, str]
    when: Sequence[str]
    to: Sequence[str]
    last: SentMessage | None


class RulePage(NamedTuple):
    """One rule with what it sent."""

    rule: Notification
    href: str
    api: str
    etag: str
    owner: str
    failing: Notice | None
    messages: Sequence[SentMessage]
    first: str
    after: str


class TriggerChoice(NamedTuple):
    """One trigger in the form."""

    name: str
    title: str
    explains: str
    about: str
    chosen: bool
    thresholds: str


class FormPage(NamedTuple):
    """The form, empty or filled in; choices are id, name and whether it is chosen."""

    rule: Notification | None
    etag: str
    owner: str
    triggers: Sequence[TriggerChoice]
    destinations: Sequence[tuple[str, str, bool]]
    sources: Sequence[tuple[str, str, bool]]
    channels: Sequence[tuple[int, str, Channel | None]]
    shares: Sequence[tuple[str, str]]
    zones: Sequence[str]


class NotificationScreens(Controller):
    """Looking only; what they change goes through the admin API."""

    path = PATH

    @get(needs="viewer")
    async def show_notifications(self, request: PageRequest, services: FromServices) -> Response[Any]:
        """List the rules."""
        rows = await asyncio.to_thread(_rows, services)
        return _screen(request, services, "notifications.html", rows=rows)

    @get("/new", needs="editor")
    async def show_new_notification(self, request: PageRequest, services: FromServices) -> Response[Any]:
        """Show the form that makes one."""
        return _screen(request, services, "notification_form.html", view=_form(services, None))

    @get("/{id:str}", needs="viewer")
    async def show_notification(
        self, request: PageRequest, services: FromServices, id: FromPath[str], after: After = None
    ) -> Response[Any]:
        """Show one rule and what it sent."""
        stored = services.store.stored("notification", id)
        if stored is None:
            return _unknown(request, id)
        view = await asyncio.to_thread(_rule_page, services, stored, number_after(after))
        return _screen(request, services, "notification.html", view=view)

    @get("/{id:str}/edit", needs="editor")
    async def show_edit_notification(
        self, request: PageRequest, services: FromServices, id: FromPath[str]
    ) -> Response[Any]:
        """Show the form that changes one."""
        stored = services.store.stored("notification", id)
        if stored is None:
            return _unknown(request, id)
        return _screen(request, services, "notification_form.html", view=_form(services, stored))


def _screen(request: PageRequest, services: Services, template: str, **values: object) -> Response[Any]:
    return screen(
        request,
        template,
        "settings",
        tabs=tabs("Notifications"),
        can_mail=services.settings.smtp.url is not None,
        states=STATES,
        triggers=TRIGGERS,
        day_names=DAY_NAMES,
        **values,
    )


def _unknown(request: PageRequest, id: str) -> Response[str]:
    hint = "It was never created, or it was deleted."
    return unknown(request, "settings", "Notification", "There is no such notification", id, hint)


def _rows(services: Services) -> list[RuleRow]:
    open_ones = notice_log(services).open_ones()
    rows: list[RuleRow] = []
    for stored in services.store.in_force("notification"):
        rule: Notification = stored.object
        newest = message_log(services).newest(1, rule=rule.id)
        mark = ("good", "●", "enabled") if rule.enabled else ("off", "○", "disabled")
        if rule.enabled and ("notification_failing", rule.id) in open_ones:
            mark = ("dead", "■", "failing")
        rows.append(
            RuleRow(
                rule=rule,
                href=rule_href(rule.id),
                mark=mark,
                when=[TRIGGERS[name].title for name in rule.when if name in TRIGGERS],
                to=[channel.shown for channel in rule.channels],
                last=newest[0] if newest else None,
            )
        )
    return rows


def _rule_page(services: Services, stored: Stored[Notification], before_id: int | None) -> RulePage:
    rule = hidden(stored.object)
    href = rule_href(rule.id)
    found = message_log(services).newest(MESSAGES_ON_A_PAGE + 1, before_id, rule.id)
    failing = notice_log(services).newest(1, None, True, "notification_failing", rule.id)
    last = found[MESSAGES_ON_A_PAGE - 1].id if len(found) > MESSAGES_ON_A_PAGE else None
    return RulePage(
        rule=rule,
        href=href,
        api=f"/api/v1/notifications/{quote(rule.id, safe='')}",
        etag=object_tag(stored.since),
        owner=stored.owner or "",
        failing=failing[0] if failing else None,
        messages=found[:MESSAGES_ON_A_PAGE],
        first=href if before_id else "",
        after=address(href, {"after": last}) if last else "",
    )


def _form(services: Services, stored: Stored[Notification] | None) -> FormPage:
    rule = None if stored is None else hidden(stored.object)
    shares = list(SHARES)
    share = None if rule is None or rule.threshold is None else rule.threshold.failed_share
    if share is not None and f"{share:g}" not in dict(SHARES):
        shares.append((f"{share:g}", f"{share * 100:.3g} %"))
    return FormPage(
        rule=rule,
        etag="" if stored is None else object_tag(stored.since),
        owner="" if stored is None else stored.owner or "",
        triggers=[
            TriggerChoice(
                name,
                trigger.title,
                trigger.explains,
                trigger.about,
                rule is not None and name in rule.when,
                " ".join(trigger.thresholds),
            )
            for name, trigger in TRIGGERS.items()
        ],
        destinations=_choices(services.store.destinations(), () if rule is None else rule.destinations),
        sources=_choices(services.store.sources(), () if rule is None else rule.sources),
        channels=_channels(rule),
        shares=shares,
        zones=_zones(),
    )


def _choices(every: Sequence[Stored[Any]], chosen: Sequence[str]) -> list[tuple[str, str, bool]]:
    ordered = sorted((stored.object for stored in every), key=lambda each: (each.id not in chosen, by_name(each)))
    room = max(FILTERS_SHOWN, len(chosen))
    return [(each.id, each.name, each.id in chosen) for each in ordered[:room]]


def _channels(rule: Notification | None) -> list[tuple[int, str, Channel | None]]:
    """Return the channels there are, and an empty one of each kind that there is none of."""
    there = [] if rule is None else [(channel.kind, channel) for channel in rule.channels]
    kinds = {kind for kind, _ in there}
    empty = [(kind, None) for kind in ("email", "slack", "webhook") if kind not in kinds]
    return [(index, kind, channel) for index, (kind, channel) in enumerate([*there, *empty])]


@cache
def _zones() -> tuple[str, ...]:
    return tuple(sorted(name for name in available_timezones() if name == "UTC" or _is_place(name)))


def _is_place(name: str) -> bool:
    return "/" in name and not name.startswith(("Etc/", "SystemV/", "US/"))


def rule_href(id: str) -> str:
    """Return the page of a rule."""
    return f"{PATH}/{quote(id, safe='')}"


SCREENS = Screens(
    (NotificationScreens,),
    docs=dict.fromkeys(
        ("notifications.html", "notification.html", "notification_form.html"), "reference/notifications"
    ),
)
