"""A network that breaks after the service took a request and before its answer got through (rule 15 of SDKs' ways)."""

from __future__ import annotations

import pytest

from tests.service.harness import wait_until
from tests.service.sdks.every_sdk import SDKS
from tests.service.sdks.field import Field
from tests.service.sdks.sdk import SDK

PATIENT = ("segment_python", "rudder_node", "analytics_next")
"""Some that send again what was not answered; not all do, and others wait long."""


@pytest.mark.parametrize("sdk", [sdk for sdk in SDKS if sdk.id in PATIENT], ids=lambda sdk: sdk.id)
def test_what_is_sent_again_is_delivered_once(field: Field, sdk: SDK) -> None:
    """The SDK repeats with the same messageIds; the service knows them, and a receiver gets each event once."""
    run = field.run(sdk, loses_an_answer=True)
    repeats = run.posted - len(run.events)
    assert repeats > 0
    ids = [event["messageId"] for event in run.events.values()]
    wait_until(lambda: sum((field.hookline.event(id) or {})["duplicates"] for id in ids) == repeats)
    assert {
        name: len(field.receiver.of(request.message_id)) for name, request in run.received.items()
    } == dict.fromkeys(run.received, 1)
