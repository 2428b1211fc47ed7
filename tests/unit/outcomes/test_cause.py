"""What failures of one cause have in common: what differs from event to event is left out, whatever is answered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.outcomes.cause import MESSAGE_CHARACTERS_MAX, cause_of, words_of


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"error":"email is missing"}', "email is missing"),
        ('{"error":{"message":"Order 8231 unknown","request_id":"req_9a"}}', "Order … unknown"),
        ('{"detail":[{"loc":["body","email"],"msg":"field required"}]}', "body.email: field required"),
        ('{"errors":{"email":["can\'t be blank"]}}', "email: can't be blank"),
        ("<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1>", "502 Bad Gateway"),
        ('{"version":2,"type":"track","userId":"Bob","properties":{}}', ""),
        ('{"errors":{"userId":"is required"}}', "userId: is required"),
        ("no answer within 5.0 s", "no answer within … s"),
        ("user bob@example.com not found at 2026-11-23T22:00:00Z", "user … not found at …"),
        ('Field "email" is required for "Bob Smith"', 'Field "email" is required for …'),
        ("“email” is required for ‘Bob Smith’, «Bob»", "“email” is required for …"),
        ("“ “Bob” ‘ ‘Bob’ « «Bob»", "“ … ‘ … « …"),
        ("'properties.total' of 'Bob' is wrong", "'properties.total' of … is wrong"),
        ("Unknown user=bob, id 7f3e8a90-aaaa-bbbb-cccc-001122334455", "Unknown user=…, id …"),
        ("Connect call failed ('10.1.2.3', 8080)", "Connect call failed (…)"),
        ("ids 1, 2, 3 are not known", "ids … are not known"),
        ("ids 1, 2, 3, 4, 5 are not known", "ids … are not known"),
        ("no such host http://bob.example/x?y=1", "no such host …"),
        ("10.1.2.3:8080 refused, fe80::1%eth0 refused", "… refused, … refused"),
        ("deadbeefdeadbeef expired", "… expired"),
        ("a\x00b\u202ec\nd", "a b c d"),
        ("", ""),
    ],
)
def test_only_what_failures_have_in_common_is_left(answer: str, words: str) -> None:
    """Numbers, ids, addresses, times and quoted values become one mark; of JSON the sentences are taken."""
    assert words_of(answer, 502) == words


def test_a_thousand_events_have_one_cause() -> None:
    """Whatever the receiver repeats of an event, the cause is the same; another status or outcome is another cause."""
    answers = [json.dumps({"message": f"Order ord_{n} of user{n}@x.example refused", "trace": n}) for n in range(1_000)]
    (cause,) = {cause_of("refused", 422, each) for each in answers}
    escaped = (f'{{"message": "Order {n} \\ud83d\\ude00 {what}"}}' for n in (7, 18) for what in ("late", "lost"))
    assert len({cause_of("refused", 422, each) for each in escaped}) == 2
    assert cause != cause_of("refused", 400, answers[0])
    assert cause != cause_of("server_error", 422, answers[0])
    assert cause != cause_of("refused", 422, '{"message": "The e-mail address is missing"}')
    assert -(2**63) <= cause < 2**63


@given(st.one_of(st.text(max_size=2_048), st.text("{}[]\"'<>=@1a, :\\", max_size=2_048)))
def test_any_answer_gives_few_words_and_a_cause(answer: str) -> None:
    """Nothing is too odd; the words are bounded, hold no control characters, and are found again from themselves."""
    words = words_of(answer, 422)
    assert len(words) <= MESSAGE_CHARACTERS_MAX
    assert "\x00" not in words
    assert cause_of("refused", 422, answer) == cause_of("refused", 422, answer)


@pytest.mark.parametrize(
    "piece", ['"', "'a", "a@", "<h1 ", "[", '{"a":', "=", "“", "«", "‘ ", "http://", "…, ", "1.", "\ud800", "((("]
)
def test_a_hostile_answer_ends_soon(piece: str) -> None:
    """No text makes the search go back over itself: where it did, this would not end."""
    for _ in range(100):
        assert len(words_of((piece * 2_048)[:2_048], 422)) <= MESSAGE_CHARACTERS_MAX
