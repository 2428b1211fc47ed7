"""The pytest fixture of this library; pytest finds it by the entry point ``pytest11``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hookline_client.testing import RecordingTransport


@pytest.fixture
def hookline_events() -> Iterator[RecordingTransport]:
    """Let the module-level calls of this test end in a ``RecordingTransport``; mistakes in calls raise.

    Every call is sent at once: ``hookline_events.events`` has it when the call has returned. The program under test may
    call ``init`` as it always does. The client that there was before is left alone, and is there again afterwards.
    """
    from hookline_client import module
    from hookline_client.client import Client
    from hookline_client.testing import RecordingTransport

    transport = RecordingTransport()
    # Named although they are the defaults: the environment of a test run may send nothing, or elsewhere.
    client = Client("test", transport=transport, strict=True, debug=True, enabled=True, consumer="background")
    with module.stand_in(client):
        yield transport
    client.close()
