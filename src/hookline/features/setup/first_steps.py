"""What a new installation shows: source, receiver, first event; each step watches for its own result."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from hookline.api.services import Services
from hookline.cli.launch import command_line
from hookline.connections.model import Destination, Source
from hookline.connections.state import Stored
from hookline.features.setup.snippets import collect_url, snippet, url_of


class Step(NamedTuple):
    """One of the first steps."""

    title: str
    text: str
    paste: str
    done: bool
    now: bool


class First(NamedTuple):
    """Hold what a new installation shows until it has a source, a destination and an event."""

    title: str
    steps: Sequence[Step]
    watching: str
    set_up_href: str


def create_source_line(services: Services) -> str:
    """Return a line that creates the first source."""
    settings = services.settings
    url = (settings.control.public_url or url_of(settings.control.listen)).rstrip("/")
    # A token from the settings lies in no file; it is not ours to print.
    kept = shlex.quote(str(settings.data_path / "admin-token"))
    token = "$HOOKLINE_CONTROL_ADMIN_TOKEN" if settings.control.admin_token else f"$(cat {kept})"
    return (
        f'curl {url}/api/v1/sources -H "Authorization: Bearer {token}" \\\n'
        '  -d \'{"id": "website", "name": "Website", "type": "web"}\''
    )


def first_steps(
    services: Services,
    sources: Sequence[Stored[Source]],
    destinations: Sequence[Stored[Destination]],
    seen_event: bool,
) -> First | None:
    """Return the first steps, None once an event was seen and there is a destination."""
    if seen_event and sources and destinations:
        return None
    keys = _first_keys(sources, destinations)
    line = snippet("curl", keys[0], collect_url(services.settings)).text if keys else ""
    how = (
        "Any Segment SDK works; so does this line." if line else "Any Segment SDK works. A line to paste appears here."
    )
    open_steps = [not sources, not destinations, not seen_event]
    current = open_steps.index(True)
    steps = [
        Step(
            "Create a source",
            "A source is a website, app or server that sends events. It identifies itself with a write key.",
            create_source_line(services),
            bool(sources),
            current == 0,
        ),
        Step(
            "Connect a receiver",
            "This starts a receiver on this machine, connects it, and shows each event with its signature checked. "
            "Run it in the folder where you started Hookline.",
            command_line("listen", services.settings),
            bool(destinations),
            current == 1,
        ),
        Step("Send a first event", how, line, seen_event, current == 2),
    ]
    watching = ("Waiting for the first source…", "Waiting for a destination…", "Waiting for the first event…")[current]
    return First("First steps", steps, watching, set_up_href(sources, seen_event))


def set_up_href(sources: Sequence[Stored[Source]], seen_event: bool) -> str:
    """Return where the set-up goes on: behind the step of the source, if there is only one to choose."""
    if len(sources) != 1:
        return "/setup"
    return f"/setup?source={quote(sources[0].object.id, safe='')}&step={'catalog' if seen_event else 'event'}"


def _first_keys(sources: Sequence[Stored[Source]], destinations: Sequence[Stored[Destination]]) -> list[str]:
    """Write keys, those first whose events go somewhere."""
    fed = {id for stored in destinations for id in stored.object.sources}
    ordered = sorted(
        (stored.object for stored in sources if stored.object.enabled), key=lambda each: each.id not in fed
    )
    return [key for source in ordered for key in source.write_keys]
