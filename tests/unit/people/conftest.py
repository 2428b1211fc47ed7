"""How often the model tests of people try something else."""

from __future__ import annotations

from tests.postgres import PostgresServer

SHARE_ON_POSTGRES = 10
"""Each example needs a database of its own, which takes longer to make there than most examples take."""


def examples(backend: PostgresServer | None, many: int) -> int:
    """The number of examples on a backend."""
    return many if backend is None else many // SHARE_ON_POSTGRES
