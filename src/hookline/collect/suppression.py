"""Which events of a request are of suppressed people: told by any id that their heads name."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.collect.head import Head, text
from hookline.privacy.suppressed import Suppressed


def concerns(suppressed: Suppressed, head: Head) -> bool:
    """Whether an event names a suppressed person: as its user, its anonymous id or, in an alias, who it was before."""
    for id in (head.user_id, head.anonymous_id, head.previous_id):
        if id is not None and (id if id.__class__ is str else text(id)) in suppressed:
            return True
    return False


def concerned(suppressed: Suppressed, heads: Sequence[Head]) -> list[int]:
    """The indexes of the events that name suppressed people."""
    return [index for index, head in enumerate(heads) if concerns(suppressed, head)]
