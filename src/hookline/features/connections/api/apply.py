"""``/api/v1/connections``: the connections as one file, applied and exported; what the command line talks to."""

from __future__ import annotations

import asyncio
from contextlib import closing

import msgspec
from litestar import Controller, Response, get, post
from litestar.params import FromPath, JSONBody

from hookline.api.calls import current_author, the_call
from hookline.api.handlers import FromServices
from hookline.api.idempotency import BODY_BYTES_MAX
from hookline.api.listing import After, Limit, Listing, number_after
from hookline.api.problem import FieldError, Problem, not_found, pointer_of
from hookline.api.services import Services, connections_past
from hookline.connections import check
from hookline.connections.past import ALL, Change, Past, Version, way_back
from hookline.connections.store import ChangeRefused
from hookline.database.location import location_of
from hookline.features.connections.api.objects import refused_as_problem
from hookline.features.connections.service import journal_ends, note_applied

YAML = "application/yaml"


class ApplyRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The text of a connections file. ``prune`` also deletes what the file no longer contains; ``dryRun`` changes
    nothing."""

    document: str
    prune: bool = False
    dry_run: bool = False


class ApplyResult(msgspec.Struct, frozen=True, rename="camel"):
    """The changes made, or that would be made, and the resulting version."""

    version: int
    changes: tuple[Change, ...]


class Connections(Controller):
    """Files in, files out."""

    path = "/connections"

    @post(
        "/apply",
        status_code=200,
        request_max_body_size=BODY_BYTES_MAX,
        needs="editor",
        operation_id="applyConnections",
    )
    async def apply(self, services: FromServices, data: JSONBody[ApplyRequest]) -> ApplyResult:
        """Change the connections to match a connections file, or return what would change."""
        the_call().only_looked = data.dry_run
        author = current_author()
        # In a thread: reading a large file takes seconds, and the store may be shared between threads.
        return await asyncio.to_thread(refused_as_problem, lambda: apply_document(services, data, author))

    @get("/export", needs="viewer", operation_id="exportConnections", media_type="application/yaml")
    async def export(self, services: FromServices) -> Response[str]:
        """Return all connections as a connections file. Stored secrets are written as `keep`."""
        from hookline.connections import file  # here: YAML is wanted rarely

        # In a thread, as it is read: 5,000 destinations take a second.
        return Response(await asyncio.to_thread(file.export, services.store.snapshot()), media_type=YAML)


def apply_document(services: Services, wanted: ApplyRequest, author: str) -> ApplyResult:
    """Apply a file's text; raise Problem naming everything wrong with it."""
    from hookline.connections import file

    applied = file.apply(
        services.store,
        wanted.document,
        author=author,
        ends=lambda: journal_ends(services.settings),
        prune=wanted.prune,
        dry_run=wanted.dry_run,
    )
    if applied.problems:
        raise _refused(applied.problems)
    if not wanted.dry_run:
        note_applied(services.store, services.settings.data_path, wanted.document)
    return ApplyResult(applied.version, applied.changes)


def _refused(problems: tuple[check.Problem, ...]) -> Problem:
    from hookline.connections.file_shape import shown_after

    first = problems[0]
    errors = [
        FieldError(pointer_of(each.path), f"line {each.line}: {each.message}" if each.line else each.message)
        for each in problems
    ]
    # Such as a file that is right, by somebody who may not apply it: not what a corrected file would change.
    status = 403 if first.code == "reference_needs_owner" else 422
    return Problem(status, first.code, f"{first}{shown_after(problems)}.", errors)


class RollBackRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """With ``dryRun`` nothing is changed."""

    dry_run: bool = False


class Versions(Controller):
    """Nothing is ever rewritten: rolling back makes a new version that says what an old one said."""

    path = "/connections/versions"

    @get(needs="viewer")
    async def list_versions(self, services: FromServices, limit: Limit = 50, after: After = None) -> Listing[Version]:
        """List the changes of the connections, newest first: when, by whom, and the first objects changed."""
        found = connections_past(services).newest(limit + 1, number_after(after))
        return Listing(found[:limit], str(found[limit - 1].version) if len(found) > limit else None)

    @get("/{number:int}", needs="viewer")
    async def get_version(self, services: FromServices, number: FromPath[int]) -> Version:
        """Return one change of the connections with all fields, secrets masked."""
        return await asyncio.to_thread(_version, services, number)

    @post("/{number:int}/roll-back", status_code=200, needs="editor")
    async def roll_back(
        self, services: FromServices, number: FromPath[int], data: JSONBody[RollBackRequest | None] = None
    ) -> ApplyResult:
        """Restore the connections to an earlier version, as a new version, or return what would change."""
        wanted = data or RollBackRequest()
        the_call().only_looked = wanted.dry_run
        return await asyncio.to_thread(refused_as_problem, lambda: _roll_back(services, number, wanted.dry_run))


def _version(services: Services, number: int, changes_max: int = ALL) -> Version:
    """Look it up with a reader of its own: a file's version takes too long for the event loop, and one reader is no two
    threads'."""
    with closing(Past(location_of(services.settings, "control"))) as past:
        found = past.version(number, changes_max)
    if found is None:
        raise not_found("version", str(number))
    return found


def _roll_back(services: Services, number: int, dry_run: bool) -> ApplyResult:
    _version(services, number, 0)
    store, author = services.store, current_author()
    version = store.version
    changes, edits = way_back(store, number)
    if not dry_run:
        version = store.change(edits, author, None, lambda: journal_ends(services.settings), expected_version=version)
    elif problems := store.check(edits):
        raise ChangeRefused(problems)
    return ApplyResult(version, tuple(changes))
