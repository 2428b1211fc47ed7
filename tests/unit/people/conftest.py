"""How often the model tests of people try something else."""

from __future__ import annotations

from hypothesis import settings

from tests.postgres import PostgresServer

SHARE_ON_POSTGRES = 10
"""Each example needs a database of its own, which takes longer to make there than most examples take."""


def examples(backend: PostgresServer | None, many: int) -> int:
    """The number of examples on a backend; ``many`` are those of a usual run, of which ``make hunt`` has more."""
    wanted = many * settings().max_examples // settings.get_profile("ci").max_examples
    return wanted if backend is None else wanted // SHARE_ON_POSTGRES
