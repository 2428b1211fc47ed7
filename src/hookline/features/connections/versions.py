"""``/api/v1/connections/versions``: every change of the connections, and the way back to before one."""

from __future__ import annotations

import asyncio

import msgspec
from litestar import Controller, get, post
from litestar.params import FromPath, JSONBody

from hookline.api.calls import current_author, the_call
from hookline.api.listing import After, Limit, Listing, number_after
from hookline.api.problem import not_found
from hookline.api.services import FromServices, Services, connections_past
from hookline.connections.past import Version, way_back
from hookline.connections.store import ChangeRefused
from hookline.features.connections.api import refused_as_problem
from hookline.features.connections.apply import ApplyResult
from hookline.features.connections.journal_ends import journal_ends


class RollBackRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Whether only to look."""

    dry_run: bool = False


class Versions(Controller):
    """Nothing is ever rewritten: rolling back makes a new version that says what an old one said."""

    path = "/connections/versions"

    @get(needs="viewer")
    async def list_versions(self, services: FromServices, limit: Limit = 50, after: After = None) -> Listing[Version]:
        """List the changes of the connections, newest first: when, by whom, and the first objects each touched."""
        found = connections_past(services).newest(limit + 1, number_after(after))
        return Listing(found[:limit], str(found[limit - 1].version) if len(found) > limit else None)

    @get("/{number:int}", needs="viewer")
    async def get_version(self, services: FromServices, number: FromPath[int]) -> Version:
        """Return one change of the connections with every field, secrets masked."""
        return _version(services, number)

    @post("/{number:int}/roll-back", status_code=200, needs="editor")
    async def roll_back(
        self, services: FromServices, number: FromPath[int], data: JSONBody[RollBackRequest | None] = None
    ) -> ApplyResult:
        """Make the connections be as they were at a version, as a new version, or say what that would change."""
        wanted = data or RollBackRequest()
        _version(services, number)
        the_call().only_looked = wanted.dry_run
        return await asyncio.to_thread(refused_as_problem, lambda: _roll_back(services, number, wanted.dry_run))


def _version(services: Services, number: int) -> Version:
    found = connections_past(services).version(number) if number < 1 << 63 else None
    if found is None:
        raise not_found("version", str(number))
    return found


def _roll_back(services: Services, number: int, dry_run: bool) -> ApplyResult:
    store, author = services.store, current_author()
    version = store.version
    changes, edits = way_back(store, number)
    if not dry_run:
        version = store.change(edits, author, None, lambda: journal_ends(services.settings), expected_version=version)
    elif problems := store.check(edits):
        raise ChangeRefused(problems)
    return ApplyResult(version, tuple(changes))
