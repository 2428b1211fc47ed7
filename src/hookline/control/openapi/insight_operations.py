"""Operations on what Hookline works out: series, what a destination came to, where it fails."""

from __future__ import annotations

from hookline.control.attempt_search import ShownAttempt
from hookline.control.attempts import AttemptDetail, RetryAsked, RetryNow
from hookline.control.destination_metrics import DestinationMetrics
from hookline.control.fleet import Fleet
from hookline.control.listing import Listing
from hookline.control.openapi.operation import PAGE, Operation
from hookline.control.series import FailingReport, SeriesReport
from hookline.control.source_schema import SourceSchema
from hookline.control.tester.destination_tests import EventTest, EventTestReport
from hookline.control.usage_details import DestinationUsageReport, StorageReport, TrackedUsersReport

INSIGHT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "get",
        "/api/v1/usage/destinations",
        "getDestinationUsage",
        "Return what each destination came to per day or month. With `Accept: text/csv` all of it as a file.",
        DestinationUsageReport,
        query=(*PAGE, "by", "from", "to"),
    ),
    Operation(
        "get",
        "/api/v1/usage/users",
        "getTrackedUsers",
        "Return about how many users the sources had in each of the newest months; also as `text/csv`.",
        TrackedUsersReport,
        query=("months",),
    ),
    Operation(
        "get",
        "/api/v1/usage/storage",
        "getStorage",
        "Return what the data folder takes of the disk, part by part; also as `text/csv`.",
        StorageReport,
    ),
    Operation(
        "get",
        "/api/v1/metrics/series",
        "getSeries",
        "Return what happened over a range, of everything or of one destination; null where no report was seen.",
        SeriesReport,
        query=("range", "destination"),
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/sources/{id}/schema",
        "getSchema",
        "Return which events a source sends, by type and name: how often, since when, with which properties.",
        SourceSchema,
        query=(*PAGE, "type", "name"),
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/workers",
        "getWorkers",
        "Return which deliver processes there are, what each delivers, and how far behind each partition is.",
        Fleet,
    ),
    Operation(
        "get",
        "/api/v1/metrics/failing",
        "getFailing",
        "Return the destinations with most failed requests.",
        FailingReport,
        query=("range", "failingLimit"),
    ),
    Operation(
        "get",
        "/api/v1/destinations/{id}/metrics",
        "getDestinationMetrics",
        "Return how a destination stands, and what became of its events over a range.",
        DestinationMetrics,
        query=("range",),
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/destinations/{id}/attempts",
        "listAttempts",
        "List the newest requests to a destination. A page may be short when the search took long; `after` goes on.",
        Listing[ShownAttempt],
        query=(*PAGE, "attemptOutcome", "status", "url", "attemptFrom", "attemptTo"),
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/destinations/{id}/attempts/{attempt}",
        "getAttempt",
        "Return one attempt: the request as it was sent, and what was kept of the answer if it failed.",
        AttemptDetail,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/retry-now",
        "retryNow",
        "Try an event that waits for another attempt at once.",
        RetryAsked,
        202,
        RetryNow,
        problems=(404, 409, 413, 422),
    ),
    Operation(
        "post",
        "/api/v1/destinations/{id}/test",
        "testDestination",
        "Show the requests for one event and, without `dryRun`, send them to every URL now; nothing is recorded.",
        EventTestReport,
        body=EventTest,
        problems=(404, 409, 413, 422, 429),
    ),
)
