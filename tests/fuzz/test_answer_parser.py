"""The sender's reading of answers that are valid, nearly valid, or neither."""

from __future__ import annotations

from random import Random

from hookline.deliver.retry.policy import retry_after_ms
from hookline.deliver.send.answers import BODY_BYTES_MAX, HEAD_BYTES_MAX
from hookline.deliver.send.connection import ANSWER_KEPT_BYTES
from hookline.outcomes.outcome import Outcome, from_number
from tests.fuzz.bare_sender import BareSender, Result
from tests.fuzz.cases import Cases
from tests.fuzz.mutations import in_pieces
from tests.fuzz.receiver_answers import answer

CASES = 10_000
ANSWER_READ_BYTES = HEAD_BYTES_MAX + BODY_BYTES_MAX
NOW_MS = 1_795_161_600_000
ENDINGS = ("closed", "reset", "late")


def check_result(result: Result) -> None:
    """An outcome of the closed set; a failure that can be stored, shown and scheduled."""
    assert result.number != -1, "sent again although an answer had begun"
    outcome, status = from_number(result.number)
    assert (result.failure is None) is (outcome is Outcome.SUCCESS)
    assert status is None or 100 <= status <= 999
    if result.failure is not None:
        told, told_status, error, retry_after = result.failure
        assert (told, told_status) == (outcome.value, status)
        assert len(error.encode()) <= 3 * ANSWER_KEPT_BYTES
        wait_ms = retry_after_ms(retry_after, NOW_MS) if retry_after is not None else None
        assert wait_ms is None or wait_ms >= 0


def without_text(result: Result) -> Result:
    """The result without the answer's text: of one that is not read to its end, more or less of it has come."""
    if result.failure is None:
        return result
    outcome, status, _, retry_after = result.failure
    return result._replace(failure=(outcome, status, "", retry_after))


def check_exchange(random: Random, sender: BareSender) -> None:
    """One result per request, the one a valid answer says; however the network cuts an answer, its status stands."""
    answers = [given for _ in range(random.choice((1, 1, 2, 4))) if (given := answer(random)).data]
    ending = random.choice(ENDINGS)
    whole = sender.exchange([[given.data] for given in answers], ending)
    cut = sender.exchange([in_pieces(random, given.data) for given in answers], ending)
    for result in [*whole, *cut]:
        check_result(result)
    for given, one, other in zip(answers, whole, cut, strict=False):
        if Outcome.BAD_RESPONSE in (from_number(one.number)[0], from_number(other.number)[0]):
            break  # broken within its head: whether its status still counts depends on how much of it has come
        if len(given.data) > ANSWER_READ_BYTES:
            one, other = without_text(one), without_text(other)
        assert one == other
    for given, *results in zip(answers, whole, cut, strict=False):
        if given.status is None:
            break  # from here on the connection may be out of step, or gone
        assert [result.number for result in results] == [given.status] * 2


def test_no_answer_does_harm(cases: Cases) -> None:
    """No exception, exactly one result per request, nothing kept beyond its bound."""
    sender = BareSender()
    number = cases.run("answers", CASES, lambda random: check_exchange(random, sender))
    print(f"{number} exchanges")
    assert sender.exchange([[b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]], "closed") == [Result(200)]
