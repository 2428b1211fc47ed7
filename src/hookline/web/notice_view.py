"""An open notice as the first page shows it: state, since when, what it says, the next step."""

from __future__ import annotations

from typing import NamedTuple

from hookline.control.notice_log import Notice

MARKS = {"critical": ("dead", "■", "critical"), "warning": ("warn", "▲", "warning"), "info": ("wait", "◔", "info")}


class NoticeView(NamedTuple):
    """One notice."""

    id: int
    kind: str
    shape: str
    word: str
    message: str
    next_step: str
    opened_at: str
    acknowledged: bool
    webhook_error: str
    rank: int


def notice_view(notice: Notice) -> NoticeView:
    """Return one notice; what is acknowledged is shown quietly."""
    kind, shape, word = MARKS[notice.severity]
    acknowledged = notice.acknowledged_at is not None
    return NoticeView(
        id=notice.id,
        kind="off" if acknowledged else kind,
        shape=shape,
        word=f"{word}, acknowledged" if acknowledged else word,
        message=notice.message,
        next_step=notice.next_step,
        opened_at=notice.opened_at,
        acknowledged=acknowledged,
        webhook_error=notice.webhook_error or "",
        rank=list(MARKS).index(notice.severity),
    )
