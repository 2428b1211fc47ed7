"""The documentation that comes with the package, as pages below ``/docs``; each screen leads to the one about it.

``PAGES`` is the one list of them: what serves, searches or links to documentation reads it here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

import hookline
from hookline.web.guide_text import Block, blocks_of
from hookline.web.rendering import page

PACKAGE = Path(hookline.__file__).parent
FOLDERS = (PACKAGE / "docs", PACKAGE.parents[1] / "docs")
"""In an installed package, and in a checkout."""


class DocPage(NamedTuple):
    """One page: its path below ``/docs`` and below ``docs/`` of the sources, and its title."""

    path: str
    title: str
    group: str

    @property
    def href(self) -> str:
        """Return where it is shown."""
        return f"/docs/{self.path}".rstrip("/")


def _group(name: str, titles: Mapping[str, str]) -> tuple[DocPage, ...]:
    return tuple(DocPage(path, title, name) for path, title in titles.items())


PAGES: tuple[DocPage, ...] = (
    *_group(
        "Start here",
        {
            "concepts": "Concepts",
            "questions": "Questions and answers",
            "how-to/come-from-segment": "Come from Segment",
            "how-to/come-from-rudderstack": "Come from RudderStack",
            "how-to/come-from-svix-or-convoy": "Come from Svix or Convoy",
            "comparison": "Comparison",
        },
    ),
    *_group(
        "When something is wrong",
        {
            "how-to/use-issues": "Find out what fails, and repair it",
            "how-to/receiver-is-down": "A receiver is down",
            "how-to/disk-is-filling": "The disk is filling",
            "how-to/damage": "Something is damaged or missing",
            "notices": "Notices",
            "notifications": "Notifications",
            "errors": "Error codes",
        },
    ),
    *_group(
        "How to",
        {
            "how-to/make-an-audience": "Make an audience",
            "how-to/replay-a-day": "Replay a day",
            "how-to/pause-safely": "Pause a destination safely",
            "how-to/rotate-a-secret": "Rotate a secret",
            "how-to/let-people-in": "Let people and programs in",
            "how-to/use-the-api": "Use the admin API",
            "how-to/client-certificates": "Show a receiver a client certificate",
            "how-to/send-to-any-api": "Send events to any API",
            "how-to/recipes": "Recipes: Discord, Teams, Zapier, Make, n8n",
            "how-to/events-in-postgresql": "Events in PostgreSQL",
            "how-to/events-in-files": "Keep events in files, and ask them in SQL",
            "how-to/add-a-destination-kind": "Add a kind of destination",
            "how-to/run-in-production": "Run in production",
            "how-to/behind-a-balancer": "Behind a balancer",
            "how-to/move-to-kafka-and-postgresql": "Move to Kafka and PostgreSQL",
        },
    ),
    *_group(
        "How it works",
        {
            "audiences": "Audiences and computed traits",
            "people": "People",
            "lanes": "Lanes: how a destination gets its events",
            "filters": "Filters",
            "mappings": "Mappings",
            "own-directives": "Directives of Hookline's own",
            "privacy": "Privacy",
            "receivers": "For receivers",
            "signing": "Signing",
            "sizing": "Sizing: what a load needs",
            "kafka": "The journal on Kafka",
            "postgresql": "The databases in PostgreSQL",
            "tracing": "Tracing",
            "compatibility": "Compatibility",
        },
    ),
    *_group(
        "Libraries",
        {
            "clients/from-segment-python": "Coming from Segment's Python library",
            "clients/from-go": "Coming from Go",
            "clients/from-php": "Coming from PHP",
            "clients/frameworks": "The Python library in frameworks",
            "clients/consumers": "Consumers of the Python library",
            "clients/spool": "The spool: `background` that survives a crash",
            "clients/upload": "The file consumer and `hookline-upload`",
            "clients/another-language": "Write a library in another language",
        },
    ),
    *_group(
        "Reference",
        {
            "collection": "Collection API",
            "api": "Admin API",
            "cli": "Command line",
            "settings": "Settings",
            "metrics": "Metrics",
        },
    ),
)
BY_PATH = {each.path: each for each in PAGES}
INDEX = DocPage("", "Hookline documentation", "")
HOME = "README"
"""The file of ``INDEX``: also what shows in a repository's folder."""


def doc_of(screen: str, here: str, docs: Mapping[str, str]) -> DocPage:
    """Return the page about a screen: of its template, else of the rail's entry it belongs to, else the list."""
    return BY_PATH.get(docs.get(screen) or docs.get(here) or "", INDEX)


def text_of(path: str) -> str:
    """Return a page as it is written."""
    found = (folder / f"{path}.md" for folder in FOLDERS)
    return next(file for file in found if file.exists()).read_text(encoding="utf-8")


@get("/docs", needs="open", sync_to_thread=False)
def list_docs() -> Response[str]:
    """Show the documentation's first page, beside the list of the others."""
    return page("docs_page.html", doc=INDEX, blocks=blocks_of_page(INDEX), groups=doc_groups())


@get("/docs/{path:path}", needs="open", sync_to_thread=False)
def show_doc(path: FromPath[str]) -> Response[str]:
    """Show one page of the documentation."""
    found = BY_PATH.get(path.strip("/"))
    if found is None:
        raise NotFoundException
    return page("docs_page.html", doc=found, blocks=blocks_of_page(found), groups=doc_groups())


@cache
def blocks_of_page(doc: DocPage) -> list[Block]:
    """Return a page, block by block."""
    return blocks_of(text_of(doc.path or HOME), lambda target: _resolve(doc.path, target))


def _resolve(path: str, target: str) -> str:
    """Return where a link of a page leads here, empty where it leads out of what is shipped."""
    if target.startswith(("https://", "http://", "#")):
        return target
    name, _, anchor = target.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)).removesuffix(".md")
    found = INDEX if wanted == HOME else BY_PATH.get(wanted)
    return found.href + (f"#{anchor}" if anchor else "") if found else ""


@cache
def doc_groups() -> list[tuple[str, list[DocPage]]]:
    """Return the pages as a list of them shows them."""
    return [(name, list(found)) for name, found in groupby(PAGES, key=lambda each: each.group)]
