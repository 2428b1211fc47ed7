"""Operations on deletion requests and suppression."""

from __future__ import annotations

from hookline.control.deletion_evidence import DeletionEvidence
from hookline.control.deletion_requests import DeletionRequestView
from hookline.control.listing import Listing
from hookline.control.openapi.operation import PAGE, Operation
from hookline.control.suppressions import Lifted, Lifting, SuppressionView
from hookline.privacy.model import Asked

_REQUESTS, _SUPPRESSIONS = "/api/v1/deletion-requests", "/api/v1/suppressions"

PRIVACY_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "get",
        _REQUESTS,
        "listDeletionRequests",
        "List the deletion requests, newest first.",
        Listing[DeletionRequestView],
        query=(*PAGE, "requestedUserId"),
    ),
    Operation(
        "post",
        _REQUESTS,
        "createDeletionRequest",
        "Have people's data erased and their receivers told (`delete`), their events no longer stored (`suppress`), or "
        "`both`.",
        DeletionRequestView,
        201,
        Asked,
        problems=(409, 422),
    ),
    Operation(
        "get",
        f"{_REQUESTS}/{{id}}",
        "getDeletionRequest",
        "Return one deletion request and how far it has come.",
        DeletionRequestView,
        problems=(404,),
    ),
    Operation(
        "get",
        f"{_REQUESTS}/{{id}}/evidence",
        "getDeletionEvidence",
        "Return the report of a deletion request: what was affected, who acknowledged it when, what was erased.",
        DeletionEvidence,
        problems=(404,),
    ),
    Operation(
        "get",
        _SUPPRESSIONS,
        "listSuppressions",
        "List the suppressed ids by their keyed hashes, newest first.",
        Listing[SuppressionView],
        query=PAGE,
    ),
    Operation(
        "post",
        f"{_SUPPRESSIONS}/lift",
        "liftSuppressions",
        "Store the events of these users or anonymous ids again.",
        Lifted,
        body=Lifting,
        problems=(422,),
    ),
    Operation(
        "delete",
        f"{_SUPPRESSIONS}/{{digest}}",
        "deleteSuppression",
        "Store the events of the id with this hash again.",
        None,
        204,
        problems=(404,),
    ),
)
