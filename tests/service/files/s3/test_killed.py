"""Files in a bucket, by the real service, while server and service are killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service.files.place import files, ids_named, ids_there, send_batch
from tests.service.files.s3.server import S3Server
from tests.service.harness import Hookline, wait_until

SETTLE_SECONDS = 90.0


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ndjson", "parquet"])
def test_a_server_killed_in_the_middle_loses_and_doubles_nothing(
    new_hookline: Callable[..., Hookline], s3: S3Server, format: str
) -> None:
    """The store dies under load, comes back, and dies again: in the end every acknowledged event is a row, once."""
    root = s3.bucket / "events"
    hookline = new_hookline(files(format=format, **s3.settings), settings={"deliver.allow_networks": ["127.0.0.0/8"]})
    with hookline:
        sent: list[str] = []

        def some_more(count: int) -> None:
            wait_until(lambda: sent.extend(send_batch(hookline)) or len(ids_named(root)) >= count, SETTLE_SECONDS)

        some_more(1)
        for _ in range(3):
            s3.kill9()
            for _ in range(5):
                sent += send_batch(hookline)
            s3.start()
            some_more(len(sent))
        hookline.kill9()
        hookline.start()
        sent += send_batch(hookline)
        wait_until(lambda: len(ids_named(root)) >= len(sent), SETTLE_SECONDS, what="all events in files")
    assert ids_named(root) == ids_there(root) == sorted(sent)
