"""Operations on dead letters, replays and notices."""

from __future__ import annotations

from hookline.control.dead_letter_log import DeadLetter
from hookline.control.dead_letters import DeadLetterDetail, Discarded, LetterSelection
from hookline.control.listing import Listing
from hookline.control.notice_log import Notice
from hookline.control.openapi.operation import PAGE, Operation
from hookline.control.replay_view import ReplayView
from hookline.control.replays import ReplayChange
from hookline.replays.model import ReplayRequest

_REPLAY = "/api/v1/replays/{id}"
_REPLAYS: tuple[Operation, ...] = (
    Operation(
        "get",
        "/api/v1/replays",
        "listReplays",
        "List the replays, newest first.",
        Listing[ReplayView],
        query=(*PAGE, "destination"),
    ),
    Operation(
        "post",
        "/api/v1/replays",
        "createReplay",
        "Send stored events again; with `dryRun` only count them (answered 200).",
        ReplayView,
        201,
        ReplayRequest,
        problems=(409, 422),
    ),
    Operation(
        "get", _REPLAY, "getReplay", "Return one replay with its progress.", ReplayView, problems=(404,), tagged=True
    ),
    Operation(
        "patch",
        _REPLAY,
        "patchReplay",
        "Pause, resume or cancel a replay, or change its rate.",
        ReplayView,
        body=ReplayChange,
        problems=(404, 409, 412, 422),
        tagged=True,
    ),
    Operation("delete", _REPLAY, "deleteReplay", "Forget an ended replay.", None, 204, problems=(404, 409)),
    *(
        Operation("post", f"{_REPLAY}/{verb}", f"{verb}Replay", summary, ReplayView, problems=(404, 409))
        for verb, summary in (
            ("pause", "Hold a replay until it is resumed; what is in flight still ends."),
            ("resume", "Go on with a paused replay."),
            ("cancel", "End a replay: what it has not sent is not sent, on the record."),
        )
    ),
)

DELIVERY_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "get",
        "/api/v1/dead-letters",
        "listDeadLetters",
        "List the newest dead letters.",
        Listing[DeadLetter],
        query=(*PAGE, "destination", "source", "type", "event", "outcome", "letterFate", "givenUpFrom", "givenUpTo"),
    ),
    Operation(
        "get",
        "/api/v1/dead-letters/{id}",
        "getDeadLetter",
        "Return one dead letter with its event, every attempt and the receiver's last answer.",
        DeadLetterDetail,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/dead-letters/{id}/retry",
        "retryDeadLetter",
        "Send one again: a replay of one event.",
        ReplayView,
        201,
        problems=(404, 409, 422),
    ),
    Operation(
        "post",
        "/api/v1/dead-letters/{id}/discard",
        "discardDeadLetter",
        "Give one up for good: its fate becomes `discarded`.",
        Discarded,
        problems=(404,),
    ),
    Operation(
        "post",
        "/api/v1/dead-letters/retry",
        "retryDeadLetters",
        "Send all that match again: one replay for each destination.",
        Listing[ReplayView],
        body=LetterSelection,
        problems=(409, 422),
    ),
    Operation(
        "post",
        "/api/v1/dead-letters/discard",
        "discardDeadLetters",
        "Give all that match up for good.",
        Discarded,
        body=LetterSelection,
        problems=(422,),
    ),
    *_REPLAYS,
    Operation(
        "get",
        "/api/v1/notices",
        "listNotices",
        "List the newest notices about the system itself.",
        Listing[Notice],
        query=(*PAGE, "state", "kind", "subject"),
    ),
    Operation("get", "/api/v1/notices/{id}", "getNotice", "Return one notice.", Notice, problems=(404,)),
    Operation(
        "post",
        "/api/v1/notices/{id}/acknowledge",
        "acknowledgeNotice",
        "Note that somebody has seen a notice.",
        Notice,
        problems=(404,),
    ),
)
