"""Operations on sources, destinations, the catalog and the connections as a file."""

from __future__ import annotations

from typing import Any

from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.connections.model import Destination, Source
from hookline.connections.past import Version
from hookline.control.apply import ApplyRequest, ApplyResult
from hookline.control.catalog import CatalogEntry, CatalogKind
from hookline.control.destination_standing import DestinationStanding
from hookline.control.effective_settings import EffectiveSetting
from hookline.control.filter_tests import FilterTest
from hookline.control.listing import Listing
from hookline.control.objects import SecretsRemoved, ShownCertificate
from hookline.control.openapi.operation import PAGE, WRITE, Operation
from hookline.control.pausing import DisableRequest, PauseRequest, ResumeRequest, TryAsked
from hookline.control.secret_rotation import EndOverlapRequest, RotatedSecret, RotateRequest
from hookline.control.versions import RollBackRequest
from hookline.route.filter_trial import FilterTrial


def _objects(
    path: str, noun: str, kind: Any, listing: Any, delete_query: tuple[str, ...] = ()
) -> tuple[Operation, ...]:
    one = path + "/{id}"
    title = noun.title().replace(" ", "")
    return (
        Operation("get", path, f"list{title}s", f"List the {noun}s by id.", listing, query=PAGE),
        Operation("post", path, f"create{title}", f"Create a {noun}.", kind, 201, kind, problems=WRITE),
        Operation("get", one, f"get{title}", f"Return one {noun}.", kind, problems=(404,), tagged=True),
        Operation(
            "put",
            one,
            f"put{title}",
            f"Create or replace a {noun}.",
            kind,
            body=kind,
            problems=(*WRITE, 412),
            tagged=True,
        ),
        Operation(
            "patch",
            one,
            f"patch{title}",
            f"Change some fields of a {noun} (JSON Merge Patch, RFC 7396: null removes).",
            kind,
            body=dict[str, Any],
            body_type="application/merge-patch+json",
            problems=(404, *WRITE, 412),
            tagged=True,
        ),
        Operation(
            "delete",
            one,
            f"delete{title}",
            f"Delete a {noun}.",
            None,
            204,
            query=delete_query,
            problems=(404, 409, 412),
            tagged=True,
        ),
    )


CONNECTION_OPERATIONS: tuple[Operation, ...] = (
    *_objects("/api/v1/sources", "source", Source, Listing[Source]),
    *_objects("/api/v1/destinations", "destination", Destination, Listing[Destination], ("removeSecrets",)),
    *_objects("/api/v1/audiences", "audience", Audience, Listing[Audience]),
    *_objects("/api/v1/computed-traits", "computed trait", ComputedTrait, Listing[ComputedTrait]),
    Operation(
        "post",
        "/api/v1/destinations/{id}/disable",
        "disableDestination",
        "Disable a destination; when events wait, `waiting` says what becomes of them (`drain` or `discard`).",
        DestinationStanding,
        body=DisableRequest,
        problems=(404, 409, 422),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/pause",
        "pauseDestination",
        "Park a destination's events until it is resumed; what is in flight still ends.",
        DestinationStanding,
        body=PauseRequest,
        problems=(404, 409, 422),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/resume",
        "resumeDestination",
        "Send what has waited, at most `rate` events per second, and what comes from now on.",
        DestinationStanding,
        body=ResumeRequest,
        problems=(404, 409, 422),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/try",
        "tryDestination",
        "Try what waits for a destination at once, whatever its breaker, its retries or `Retry-After` say.",
        TryAsked,
        status=202,
        problems=(404, 409),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/rotate-secret",
        "rotateSecret",
        "Sign with a new secret, and with the one it replaces until the overlap ends.",
        RotatedSecret,
        body=RotateRequest,
        problems=(404, *WRITE),
    ),
    Operation(
        "get",
        "/api/v1/destinations/{id}/client-certificate",
        "getClientCertificate",
        "Return whose the client certificate of a destination is, until when, and what is wrong with it.",
        ShownCertificate,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/remove-old-secrets",
        "removeOldSecrets",
        "Remove every secret that is not in force from the history of a destination, deleted or not, at once; else it "
        "goes 30 days after it left force.",
        SecretsRemoved,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/end-overlap",
        "endOverlap",
        "Sign with the new secret alone from now on.",
        Destination,
        body=EndOverlapRequest,
        problems=(404, *WRITE),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/filters/test",
        "testFilters",
        "Try filters, saved or not yet, on recent events: how many match, and samples before and after.",
        FilterTrial,
        body=FilterTest,
        problems=(404, 413, 422),
    ),
    Operation(
        "get",
        "/api/v1/settings",
        "listSettings",
        "List every setting as the running server has it, with its origin; secrets masked.",
        Listing[EffectiveSetting],
    ),
    Operation("get", "/api/v1/catalog", "listCatalog", "List the kinds of destination.", Listing[CatalogKind]),
    Operation(
        "get",
        "/api/v1/catalog/{kind}",
        "getKind",
        "Return one kind of destination with its set-up guide.",
        CatalogEntry,
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/catalog/{kind}/icon.svg",
        "getIcon",
        "Return the icon of a kind of destination.",
        str,
        answer_type="image/svg+xml",
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/connections/apply",
        "applyConnections",
        "Bring the connections to what a connections file says, or say what that would change.",
        ApplyResult,
        body=ApplyRequest,
        problems=WRITE,
    ),
    Operation(
        "get",
        "/api/v1/connections/export",
        "exportConnections",
        "Return all connections as a connections file; stored secrets are written as `keep`.",
        str,
        answer_type="application/yaml",
    ),
    Operation(
        "get",
        "/api/v1/connections/versions",
        "listVersions",
        "List the changes of the connections, newest first: when, by whom, and the first objects each touched.",
        Listing[Version],
        query=PAGE,
    ),
    Operation(
        "get",
        "/api/v1/connections/versions/{number}",
        "getVersion",
        "Return one change of the connections with every field, secrets masked.",
        Version,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/connections/versions/{number}/roll-back",
        "rollBack",
        "Make the connections be as they were at a version, as a new version, or say what that would change.",
        ApplyResult,
        body=RollBackRequest,
        problems=(404, *WRITE),
    ),
)
