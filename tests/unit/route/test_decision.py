"""One routing decision, explained; and that the engine's hot form decides alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookline.connections.model import Destination, LaneConfig, Webhook, WebhookSettings
from hookline.deliver.lanes.lane import Lane
from hookline.journal.record import Record
from hookline.route.decision import not_routed_reason

SOURCES = st.sampled_from(["website", "app", "server"])
OFFSETS = st.integers(0, 5)


def record(source: str, selection: dict[str, bool] | None, to: tuple[str, ...] | None) -> Record:
    """An event with what routing looks at."""
    return Record(1, False, 0, source, "track", "m", b"", "u", "", "sdk", b"{}", selection=selection, to=to)


def destination(*sources: str) -> Destination:
    """The destination ``crm``."""
    settings = WebhookSettings(webhooks=(Webhook(url="https://crm.example.com/"),))
    return Destination(id="crm", name="CRM", sources=sources, settings=settings)


FROM_FIVE = LaneConfig(number=1, sources={"website": {0: 5}})


def reason(
    source: str = "website",
    offset: int = 9,
    *,
    lane: LaneConfig | None = FROM_FIVE,
    selection: dict[str, bool] | None = None,
    to: tuple[str, ...] | None = None,
) -> str | None:
    """The decision for a destination fed by the website from offset 5 on."""
    return not_routed_reason(record(source, selection, to), destination("website"), lane, 0, offset)


def test_each_reason() -> None:
    """A destination gets an event, or there is one reason why not."""
    assert reason() is None
    assert reason("app") == "source_not_connected"
    assert reason(lane=None) == "destination_disabled"
    assert reason(offset=4) == "connected_later"
    assert reason(offset=5) is None
    assert reason(selection={"Webhooks": False}) == "integrations_name_false"
    assert reason(selection={"All": False}) == "integrations_all_false"


def test_a_lane_that_is_drained() -> None:
    """What was accepted before the destination was disabled is sent, whatever it is connected to since."""
    ends = LaneConfig(number=1, sources={"app": {0: 5}}, until={0: 8})
    assert reason("app", 7, lane=ends) is None
    assert reason("app", 8, lane=ends) == "destination_disabled"
    assert reason("app", 4, lane=ends) == "connected_later"
    assert reason("website", 7, lane=ends) == "source_not_connected"


def test_aimed_events() -> None:
    """An event of Hookline's own goes where it is aimed, whatever its source is connected to."""
    assert reason("app", to=("crm",)) is None
    assert reason(to=("mail",)) == "aimed_at_others"
    assert reason(to=()) == "aimed_at_others"
    assert reason(to=("crm",), lane=None) == "destination_disabled"


@given(
    st.dictionaries(SOURCES, OFFSETS, max_size=3),
    SOURCES,
    OFFSETS,
    st.none() | st.dictionaries(st.sampled_from(["All", "Webhooks", "webhooks"]), st.booleans()),
    st.none() | st.lists(st.sampled_from(["crm", "mail"]), max_size=2).map(tuple),
)
def test_the_hot_form_agrees(
    starts: dict[str, int], source: str, offset: int, selection: dict[str, bool] | None, to: tuple[str, ...] | None
) -> None:
    """``Lane.takes`` is true exactly when there is no reason against."""
    lane = LaneConfig(number=1, sources={name: {0: start} for name, start in starts.items()})
    event, target = record(source, selection, to), destination(*starts)
    explained = not_routed_reason(event, target, lane, 0, offset)
    assert Lane(target, lane, ()).takes(event, 0, offset) == (explained is None)
