"""The connections file at the start, when pages have changed what it meets."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.model import Destination, Source, Webhook, WebhookSettings
from hookline.connections.store import Store
from hookline.features.connections.service import CannotStart, note_applied, open_connections
from hookline.features.notices.conditions.finding import Moment
from hookline.features.notices.conditions.machine import UnappliedFile
from hookline.settings import Settings

SOURCES = "sources: [{id: site, name: Site, writeKeys: [wk_1]}]\n"
FILE = SOURCES + (
    "destinations: [{id: crm, name: CRM, sources: [site], settings: {sharedSecret: %s, webhooks:"
    ' [{url: "https://crm.example.com/in"}]}}]\n'
)


def crm(secret: str | None, name: str = "CRM") -> Destination:
    """The destination of the file, as a page may leave it."""
    settings = WebhookSettings(webhooks=(Webhook(url="https://crm.example.com/in"),), shared_secret=secret)
    return Destination(id="crm", name=name, sources=("site",), settings=settings)


CHANGES: dict[str, list[list[Edit]]] = {
    "made again": [[Delete("destination", "crm")], [Put(crm("a-shared-secret", "Sales"))]],
    "secret removed": [[Put(crm(None))]],
    "key moved": [
        [Put(Source(id="site", name="Site", write_keys=("wk_2",)))],
        [Put(Source(id="shop", name="Shop", write_keys=("wk_1",)))],
    ],
}
"""What is done on pages, one change after the other."""


class Starts:
    """A data folder, and control's beginning of each start in it."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(data_dir=str(folder / "data"))
        self.file = folder / "connections.yaml"

    def start(self, text: str, boot: str) -> Store:
        """Return the store of a start with this file."""
        self.file.write_text(text)
        return open_connections(self.settings, self.file, boot)


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_page_changed_never_keeps_the_service_from_starting(starts: Starts, change: str) -> None:
    """The file is the one of the starts before: the connections stay as they are, and a notice says why, until a file
    is applied."""
    starts.start(FILE % "a-shared-secret", "first").close()
    text = FILE % "keep"
    with closing(starts.start(text, "second")) as store:
        for edits in CHANGES[change]:
            store.change(edits, "ada", None, dict)
        before = store.snapshot()
    with closing(starts.start(text, "third")) as store:
        assert store.snapshot() == before
        condition = UnappliedFile(lambda: store.unapplied_file)
        (found,) = condition.findings(Moment(0, {}))
        assert found.subject == str(starts.file)
        note_applied(store, starts.settings.data_path, SOURCES)
        assert condition.findings(Moment(0, {})) == ()


@pytest.mark.parametrize("text", [FILE % "keep", SOURCES.replace("name", "nom")])
def test_a_file_that_was_never_applied_must_be_right(starts: Starts, text: str) -> None:
    """At the first start, and after it was changed."""
    for boot in ("first", "second"):
        with pytest.raises(CannotStart):
            starts.start(text, boot)
        starts.start(SOURCES, boot).close()
