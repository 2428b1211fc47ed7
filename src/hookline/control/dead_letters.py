"""``/api/v1/dead-letters``: the events that a destination did not get."""

from __future__ import annotations

from typing import Annotated

from litestar import Controller, get
from litestar.params import FromPath, QueryParameter

from hookline.control.dead_letter_log import DeadLetter
from hookline.control.listing import After, Limit, Listing
from hookline.control.problem import Problem, not_found
from hookline.control.services import FromServices


class DeadLetters(Controller):
    """Reading only in this version."""

    path = "/dead-letters"

    @get()
    async def list_dead_letters(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        destination: Annotated[str | None, QueryParameter(max_length=100)] = None,
    ) -> Listing[DeadLetter]:
        """Return the newest dead letters, of one destination or of all."""
        if after is not None and not (after.isdecimal() and len(after) < 19):
            raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
        letters = services.dead_letters.newest(limit + 1, int(after) if after else None, destination)
        page = letters[:limit]
        return Listing(page, str(page[-1].id) if len(letters) > limit else None)

    @get("/{letter_id:str}")
    async def get_dead_letter(self, services: FromServices, letter_id: FromPath[str]) -> DeadLetter:
        """Return one dead letter."""
        letter = services.dead_letters.get(int(letter_id)) if letter_id.isdecimal() and len(letter_id) < 19 else None
        if letter is None:
            raise not_found("dead letter", letter_id)
        return letter
