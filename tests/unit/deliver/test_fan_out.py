"""How several URLs of one destination are asked: ``any`` is in test_engine; here ``all`` and ``fallback``."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from hookline.connections.model import DeliveryOptions, Destination, Pause, Webhook, WebhookSettings
from hookline.deliver.cluster.fence import Fence
from hookline.deliver.retry.policy import RetrySchedule
from hookline.outcomes.outcome import Outcome
from tests.unit.deliver.rig import Request, Rig, destination, source

FanOut = Literal["any", "all", "fallback"]


def begin(rig: Rig, fan_out: FanOut, urls: int = 3) -> None:
    """Start with one destination of so many URLs and one event."""
    rig.change(source(), destination("crm", urls=urls, delivery=DeliveryOptions(fan_out=fan_out)))
    rig.start()
    rig.append("m")
    rig.turn()


def asked(rig: Rig) -> list[int]:
    """The URLs that have a request without an answer."""
    return sorted(request.target.index for request in rig.network.waiting)


def to(rig: Rig, index: int) -> Request:
    """The request to one of the URLs."""
    return next(request for request in rig.network.waiting if request.target.index == index)


def next_try(rig: Rig) -> list[int]:
    """Let the next attempt come due; return the URLs it goes to."""
    rig.checkpoint()
    rig.pass_time(1.1)
    return asked(rig)


def outcomes(rig: Rig) -> list[tuple[str, str]]:
    """URL number and outcome of each attempt, in their order."""
    return [(attempt.url[-1], attempt.outcome.value) for attempt in rig.event("m").destinations[0].attempts]


class TestAll:
    """Each URL must accept, and each is retried by itself."""

    @pytest.mark.parametrize("is_usable", [True, False])
    def test_what_is_called_back_follows_urls_that_change_places(self, rig: Rig, is_usable: bool) -> None:
        """Also before that is saved, and where the settings of then cannot be used: the other URL was asked, again."""
        begin(rig, "all", urls=2)
        rig.append("n")
        rig.turn()
        requests = list(rig.network.waiting)
        crm = destination("crm", urls=2, delivery=DeliveryOptions(fan_out="all"))
        turned = msgspec.structs.replace(crm.settings, webhooks=crm.settings.webhooks[::-1])
        if is_usable:
            rig.lane("crm").breaker.open("a test")
        else:
            missing = msgspec.structs.replace(turned, shared_secret="env:HOOKLINE_SECRET_NOT_THERE")
            rig.change(msgspec.structs.replace(crm, settings=missing))
            rig.follow()
        for request, status in zip(requests[::-1], (404, 404, 404, 200), strict=True):
            rig.answer(request, status)
        if not is_usable:
            rig.checkpoint()
        rig.change(msgspec.structs.replace(crm, settings=turned))
        rig.follow()
        rig.checkpoint()
        rig.come_to_rest()
        again = [(each.offset, each.target.url[-1]) for each in rig.network.sent[4:]]
        assert sorted(again) == [(0, "1"), (1, "0"), (1, "1")]

    def test_only_those_that_failed_are_asked_again(self, rig: Rig) -> None:
        """Until the last one has accepted the event is not delivered."""
        begin(rig, "all")
        rig.answer(to(rig, 0), 200)
        rig.answer(to(rig, 1), 503)
        rig.answer(to(rig, 2), 200)
        rig.checkpoint()
        assert rig.status_at("m", "crm") == "retrying"
        assert next_try(rig) == [1]
        rig.answer(to(rig, 1), 200)
        assert rig.status_at("m", "crm") == "delivered"
        assert next_try(rig) == []
        assert sorted(outcomes(rig)) == [("0", "success"), ("1", "server_error"), ("1", "success"), ("2", "success")]

    def test_a_refusal_for_good_is_told_when_the_others_have_accepted(self, rig: Rig) -> None:
        """The event ends as a dead letter: not every URL got it, and the one that refused is not asked again."""
        begin(rig, "all")
        rig.answer(to(rig, 0), 400)
        rig.answer(to(rig, 1), 503)
        rig.answer(to(rig, 2), 200)
        assert next_try(rig) == [1]
        rig.answer(to(rig, 1), 200)
        rig.checkpoint()
        assert rig.status_at("m", "crm") == "failed"

    def test_one_dead_url_does_not_open_the_breaker(self, rig: Rig) -> None:
        """The others go on being served while it waits."""
        begin(rig, "all", urls=2)
        for number in range(60):
            rig.append(f"n{number}")
            rig.turn()
            rig.answer(to(rig, 1), Outcome.TIMED_OUT)
            rig.answer(to(rig, 0), 200)
            rig.pass_time(0.1)
            for request in list(rig.network.waiting):
                rig.answer(request, Outcome.TIMED_OUT if request.target.index else 200)
        assert rig.lane("crm").breaker.state != "open"
        assert rig.role.engine.counters.breaker_opened == 0

    @pytest.mark.parametrize("checkpoint", [True, False])
    def test_a_crash_never_loses_a_url(self, rig: Rig, checkpoint: bool) -> None:
        """What one URL accepted before a kill is no proof that the others did."""
        begin(rig, "all")
        rig.answer(to(rig, 0), 200)
        if checkpoint:
            rig.checkpoint()
        rig.restart()
        rig.turn()
        assert {1, 2} <= set(asked(rig))
        rig.answer_all(200)
        rig.checkpoint()
        assert rig.status_at("m", "crm") == "delivered"

    def test_what_a_breaker_calls_back_is_not_sent_again_to_who_took_it(self, rig: Rig) -> None:
        """A URL that begins to refuse everything burns nothing, and the other gets no event twice."""
        rig.change(source(), destination("crm", urls=2, delivery=DeliveryOptions(fan_out="all")))
        rig.start()
        rig.append(*(f"m{number}" for number in range(60)))
        rig.turn()
        self.refuse(rig, 503, rounds=20)
        self.refuse(rig, 401, rounds=40)
        assert rig.lane("crm").breaker.state == "open"
        rig.come_to_rest()
        taken = [request.offset for request in rig.network.sent if request.target.index == 0]
        assert sorted(taken) == list(range(60))
        assert {rig.status_at(f"m{number}", "crm") for number in range(60)} == {"delivered"}

    def refuse(self, rig: Rig, status: int, rounds: int) -> None:
        """The second URL refuses everything for so many seconds, the first accepts."""
        for _ in range(rounds):
            for request in list(rig.network.waiting):
                rig.answer(request, status if request.target.index else 200)
                rig.turn()
            rig.checkpoint()
            rig.pass_time(1.0)

    def test_one_that_is_gone_is_not_the_destination(self, rig: Rig) -> None:
        """410 from the only URL that was left to ask, while the other accepts."""
        begin(rig, "all", urls=2)
        rig.answer(to(rig, 0), 200)
        rig.answer(to(rig, 1), 503)
        assert next_try(rig) == [1]
        rig.answer(to(rig, 1), 410)
        rig.checkpoint()
        assert not rig.lane("crm").gone
        assert rig.status_at("m", "crm") == "failed"

    def test_gone_everywhere_parks_it(self, rig: Rig) -> None:
        """410 from every URL is about the destination, not about the event."""
        begin(rig, "all")
        rig.answer_all(410)
        assert rig.lane("crm").breaker.state == "open"


class TestFallback:
    """The next URL only when the one before has failed."""

    def test_the_first_that_accepts_is_the_only_one_after_those_that_failed(self, rig: Rig) -> None:
        """One after the other, in their order, within one attempt."""
        begin(rig, "fallback")
        assert asked(rig) == [0]
        rig.answer(to(rig, 0), 400)
        assert asked(rig) == [1]
        rig.answer(to(rig, 1), 200)
        assert asked(rig) == []
        assert sorted(outcomes(rig)) == [("0", "refused"), ("1", "success")]
        assert rig.status_at("m", "crm") == "delivered"

    def test_no_other_url_is_asked_for_what_others_may_own_by_now(self, rig: Rig) -> None:
        """The attempt ends with the URLs that were asked, and comes again once the group has confirmed."""
        begin(rig, "fallback")
        rig.role.engine.fence = Fence(10.0)
        rig.answer(to(rig, 0), 503)
        assert asked(rig) == []
        rig.role.engine.fence = None
        assert next_try(rig) != []

    def test_when_all_have_failed_it_begins_anew_with_the_first_worth_it(self, rig: Rig) -> None:
        """The next attempt leaves out what refused for good."""
        begin(rig, "fallback")
        rig.answer(to(rig, 0), 400)
        rig.answer(to(rig, 1), 503)
        rig.answer(to(rig, 2), Outcome.TIMED_OUT)
        rig.checkpoint()
        assert rig.status_at("m", "crm") == "retrying"
        assert next_try(rig) == [1]
        rig.answer(to(rig, 1), 503)
        assert asked(rig) == [2]

    def test_a_pause_in_the_middle_asks_nobody_else_until_it_ends(self, rig: Rig) -> None:
        """The URL that was not asked yet is asked then; that the first refused for good gives nothing up."""
        begin(rig, "fallback", urls=2)
        rig.store.pause("crm", Pause(since=rig.clock.now_ms()), "test", rig.appender.ends)
        rig.follow()
        rig.answer(to(rig, 0), 400)
        assert next_try(rig) == []
        rig.store.resume("crm", None, "test", rig.appender.ends)
        rig.follow()
        assert next_try(rig) == [1]
        rig.answer(to(rig, 1), 200)
        rig.checkpoint()
        assert rig.status_at("m", "crm") == "delivered"

    @pytest.mark.parametrize("status", [400, 503])
    def test_nor_is_anybody_given_up_while_a_secret_is_missing(self, rig: Rig, status: int) -> None:
        """The URL that was not asked yet is asked once the settings can be used, by itself or after the first."""
        begin(rig, "fallback", urls=2)
        first, crm = to(rig, 0), destination("crm", urls=2, delivery=DeliveryOptions(fan_out="fallback"))
        missing = msgspec.structs.replace(crm.settings, shared_secret="env:HOOKLINE_SECRET_NOT_THERE")
        rig.change(msgspec.structs.replace(crm, settings=missing))
        rig.follow()
        rig.answer(first, status)
        assert next_try(rig) == []
        rig.change(crm)
        rig.follow()
        if status == 503:
            assert next_try(rig) == [0]
            rig.answer(to(rig, 0), 503)
            assert asked(rig) == [1]
        assert next_try(rig) == [1]

    def test_a_stop_in_the_middle_gives_nothing_up(self, rig: Rig) -> None:
        """The next process asks the URL that this one did not come to."""
        begin(rig, "fallback", urls=2)
        rig.role.engine.stopping = True
        rig.answer(to(rig, 0), 400)
        assert asked(rig) == []
        rig.checkpoint()
        rig.restart()
        rig.pass_time(1.1)
        assert asked(rig) == [1]

    def test_one_that_is_gone_says_nothing_about_those_that_were_not_asked(self, rig: Rig) -> None:
        """410 from the first URL while the service stops: the destination is not gone."""
        begin(rig, "fallback", urls=2)
        rig.role.engine.stopping = True
        rig.answer(to(rig, 0), 410)
        assert not rig.lane("crm").gone
        assert rig.lane("crm").breaker.state == "closed"

    def test_nobody_else_is_asked_when_the_lane_has_ended(self, rig: Rig) -> None:
        """Disabled while the first URL was asked."""
        begin(rig, "fallback", urls=2)
        rig.change(destination("crm", urls=2, enabled=False))
        rig.follow()
        rig.answer(to(rig, 0), 503)
        assert asked(rig) == []

    def test_all_refusing_for_good_is_a_dead_letter(self, rig: Rig) -> None:
        """After the last URL there is nothing left to try."""
        begin(rig, "fallback", urls=2)
        rig.answer(to(rig, 0), 400)
        rig.answer(to(rig, 1), 404)
        rig.checkpoint()
        assert rig.status_at("m", "crm") == "failed"


def test_the_window_ends_a_url_that_never_accepts(rig: Rig) -> None:
    """With ``all`` too: what is missing after the window is told as expired."""
    begin(rig, "all", urls=2)
    rig.role.engine.schedule = RetrySchedule(rig.settings.deliver, rig.rng)
    rig.answer(to(rig, 0), 200)
    rig.answer(to(rig, 1), 503)
    rig.checkpoint()
    rig.pass_time(rig.settings.deliver.retry_window + 120)
    rig.checkpoint()
    assert rig.status_at("m", "crm") == "expired"


def test_settings_changed_on_the_way_do_not_ask_a_url_again(rig: Rig) -> None:
    """A delivery that began under other settings falls back to a URL that it has not asked, or waits."""
    begin(rig, "any", urls=1)
    rig.change(destination("crm", urls=1, delivery=DeliveryOptions(fan_out="fallback")))
    rig.follow()
    rig.answer(to(rig, 0), 500)
    rig.turn()
    assert asked(rig) == []
    assert next_try(rig) == [0]


def with_urls(*numbers: int, fan_out: FanOut = "all") -> Destination:
    """A destination all of whose URLs must accept, if nothing else is said, with these of them."""
    webhooks = tuple(Webhook(url=f"https://crm.example.com/{number}") for number in numbers)
    made = destination("crm", delivery=DeliveryOptions(fan_out=fan_out))
    return msgspec.structs.replace(made, settings=WebhookSettings(webhooks=webhooks))


def asked_of(rig: Rig) -> list[str]:
    """The numbers of the URLs that were asked, in the order of asking."""
    return [request.target.url[-1] for request in rig.network.sent]


@pytest.mark.parametrize("is_saved", [True, False])
@pytest.mark.parametrize("is_answered", [True, False])
class TestUrlsThatChange:
    """What an event still has to be accepted by follows the URLs, wherever they stand in the list."""

    def begin(
        self, rig: Rig, is_saved: bool, is_answered: bool, now: tuple[int, ...], how: int = 503, fan_out: FanOut = "all"
    ) -> None:
        """URL 0 fails, URL 1 accepts; the list changes after the answers, saved or not, or before them."""
        rig.change(source(), with_urls(0, 1))
        rig.start()
        rig.append("m")
        rig.turn()
        first, second = rig.network.waiting
        if is_answered:
            rig.answer(first, how)
            rig.answer(second, 200)
        if is_saved:
            rig.checkpoint()
        rig.change(with_urls(*now, fan_out=fan_out))
        rig.follow()
        if not is_answered:
            rig.answer(first, how)
            rig.answer(second, 200)
        rig.pass_time(2)
        rig.come_to_rest()

    def test_in_another_order(self, rig: Rig, is_saved: bool, is_answered: bool) -> None:
        """The one that failed is asked again, and no other."""
        self.begin(rig, is_saved, is_answered, (1, 0))
        assert asked_of(rig) == ["0", "1", "0"]
        assert rig.status_at("m", "crm") == "delivered"

    def test_with_another_one(self, rig: Rig, is_saved: bool, is_answered: bool) -> None:
        """It is asked too: all must accept."""
        self.begin(rig, is_saved, is_answered, (2, 1, 0))
        assert sorted(asked_of(rig)) == ["0", "0", "1", "2"]
        assert rig.status_at("m", "crm") == "delivered"

    def test_without_the_one_that_failed(self, rig: Rig, is_saved: bool, is_answered: bool) -> None:
        """The others have accepted it: it is delivered, and nobody is asked again."""
        self.begin(rig, is_saved, is_answered, (1,))
        assert asked_of(rig) == ["0", "1"]
        assert rig.status_at("m", "crm") == "delivered"

    @pytest.mark.parametrize("fan_out", ["any", "fallback"])
    @pytest.mark.parametrize("now", [(1,), (1, 0), (2, 1)])
    def test_with_one_that_accepted_where_one_is_enough_from_now_on(
        self, rig: Rig, is_saved: bool, is_answered: bool, now: tuple[int, ...], fan_out: FanOut
    ) -> None:
        """It is delivered, and nobody is asked again, whichever URLs there are beside that one."""
        self.begin(rig, is_saved, is_answered, now, fan_out=fan_out)
        assert asked_of(rig) == ["0", "1"]
        assert rig.status_at("m", "crm") == "delivered"

    def test_without_the_one_that_accepted_where_one_is_enough_from_now_on(
        self, rig: Rig, is_saved: bool, is_answered: bool
    ) -> None:
        """The one that is left has not accepted it, and is asked again."""
        self.begin(rig, is_saved, is_answered, (0,), fan_out="any")
        assert asked_of(rig) == ["0", "1", "0"] if is_answered else ["0", "1"]


@pytest.mark.parametrize("fan_out", ["any", "fallback"])
def test_an_answer_that_comes_after_one_url_is_enough(rig: Rig, fan_out: FanOut) -> None:
    """One URL had accepted it before: that the other fails then has nobody asked again."""
    rig.change(source(), with_urls(0, 1))
    rig.start()
    rig.append("m")
    rig.turn()
    rig.answer(to(rig, 1), 200)
    rig.change(with_urls(0, 1, fan_out=fan_out))
    rig.follow()
    rig.answer(to(rig, 0), 503)
    rig.pass_time(2)
    rig.come_to_rest()
    assert asked_of(rig) == ["0", "1"]
    assert rig.status_at("m", "crm") == "delivered"


def test_a_refusal_stays_one_when_the_other_url_goes(rig: Rig) -> None:
    """One URL refused the event for good, the other, which failed, is taken out: it is a dead letter."""
    rig.change(source(), with_urls(0, 1))
    rig.start()
    rig.append("m")
    rig.turn()
    rig.answer(to(rig, 0), 503)
    rig.answer(to(rig, 1), 422)
    rig.checkpoint()
    rig.change(with_urls(1))
    rig.follow()
    rig.come_to_rest()
    assert asked_of(rig) == ["0", "1"]
    assert rig.status_at("m", "crm") == "failed"
