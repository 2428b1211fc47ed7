"""Makes the requests of attempts and sends them: one POST to each URL, all at once (SPEC 4.1 rules 1, 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookline.deliver.event import Event
from hookline.deliver.lanes.delivery import Delivery
from hookline.deliver.lanes.lane import Lane, Target
from hookline.deliver.send.port import Failure
from hookline.outcomes.outcome import Outcome
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.deliver.dispatcher import Engine

LINGERING_MAX = 64
"""Requests per URL that may still run although another URL has taken the event; beyond, the URL is left out."""

Requests = list[tuple[Delivery, bytes]]
"""Requests for one target: what the pool gives back with the answer, and the bytes."""


class Departures:
    """The sending half of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._log = logger()

    def depart(self, lane: Lane, leaving: Sequence[Delivery]) -> None:
        """Begin attempts of one lane. All requests are made first and then sent in one go: made together they cost
        less, and a receiver is woken once for many, not once for each.
        """
        if not leaving:  # where one user's events go one after the other, perhaps nobody's turn has come
            return
        self._count(lane, len(leaving))
        if lane.is_sick:
            self._engine.sick += len(leaving)
            for delivery in leaving:
                delivery.sick = True
        for delivery in leaving:
            lane.in_flight[delivery.event.place] = 0 if delivery.from_row else delivery.first_at_ms
        targets = lane.targets
        if len(targets) != 1:
            self._depart_to_several(leaving, targets)
            return
        try:
            requests = targets[0].template.requests([delivery.event for delivery in leaving])
        except Exception:  # noqa: BLE001 - an event that cannot be rendered must not stop the others: which is it?
            self._depart_to_several(leaving, targets)
        else:
            targets[0].route.send(targets[0], zip(leaving, requests, strict=True))

    def depart_plainly(self, lane: Lane, events: Sequence[Event], now_ms: int) -> None:
        """Begin first attempts of a plain lane: nothing but a failure needs to know more than event and target."""
        self._count(lane, len(events))
        lane.in_flight.update(dict.fromkeys([event.place for event in events], now_ms))
        target = lane.targets[0]
        try:
            requests = target.template.requests(events)
        except Exception:  # noqa: BLE001 - as above
            self._depart_to_several([Delivery(lane, event, now_ms) for event in events], lane.targets)
        else:
            target.route.send(target, zip(events, requests, strict=True))

    def _count(self, lane: Lane, leaving: int) -> None:
        self._engine.flying += leaving
        if lane.rate is not None:
            lane.rate.take(leaving)

    def _depart_to_several(self, leaving: Sequence[Delivery], targets: Sequence[Target]) -> None:
        by_target: list[Requests] = [[] for _ in targets]
        for delivery in leaving:
            try:
                self._ask_several(delivery, targets, by_target)
            except Exception as error:  # noqa: BLE001 - as above
                self._unsendable(delivery, error)
        for target, requests in zip(targets, by_target, strict=True):
            if requests:
                target.route.send(target, requests)

    def _ask_several(self, delivery: Delivery, targets: Sequence[Target], by_target: list[Requests]) -> None:
        chosen = delivery.choose(targets)
        delivery.event.shared = True
        fan_out = delivery.lane.options.fan_out
        if fan_out == "any":
            chosen = [target for target in chosen if target.lingering < LINGERING_MAX] or chosen
        elif fan_out == "fallback":
            chosen = chosen[:1]
        requests = [(target, target.template.request(delivery.event)) for target in chosen]
        delivery.targets = chosen
        delivery.outstanding = len(chosen)
        for target, request in requests:
            by_target[target.index].append((delivery, request))

    def _unsendable(self, delivery: Delivery, error: Exception) -> None:
        engine = self._engine
        self._log.error("event_unsendable", destination=delivery.lane.destination.id, exc_info=error)
        delivery.done = True
        engine.release(delivery)
        failure = Failure(Outcome.REJECTED, None, f"the request could not be made ({type(error).__name__})")
        engine.failures.bury(delivery, "failed", failure, engine.clock.now_ms())
