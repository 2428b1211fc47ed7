"""The ``hookline`` command line as cyclopts sees it: its groups, and the kinds of options that commands share."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from hookline import __version__
from hookline.cli.target import Options
from hookline.outcomes.outcome import DeliveryStatus

USAGE = 2
"""The exit code of wrong usage."""

HERE = Options()

SERVICE = "Service"
CONNECTIONS = "Connections as a file"
OBJECTS = "Objects, one by one"
DELIVERY = "Delivery"
EVENTS = "Events"
PEOPLE = "People and programs"
PRIVACY = "Privacy"

Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Pairs = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]
Repeated = Annotated[list[str] | None, Parameter(negative="")]
Status = Annotated[DeliveryStatus | None, Parameter(name_transform=str.lower)]
"""Written as the API writes it, with underscores."""
MessageType = Literal["identify", "track", "page", "screen", "group", "alias"]
StoredType = Literal[MessageType, "delete"]
"""Nobody sends the last one, but it is stored and delivered like the others."""

app = App(
    name="hookline",
    help="Self-hosted event forwarding: Segment-compatible calls in, signed webhooks out.",
    version=__version__,
    help_format="plaintext",  # Markdown would cost a tenth of the time of --help
    help_epilogue="Exit codes: 0 done, 1 failed, 2 wrong usage. Every command: /docs/cli of the pages.",
)
