"""What curl, the library or the program, has to say after a request, as an ``Answer``."""

from __future__ import annotations

from hookline_client.answer import Answer, read_answer
from hookline_client.errors import CODES

TIMED_OUT = 28
TLS_FAILURES = frozenset((35, 51, 53, 54, 58, 59, 60, 64, 66, 77, 80, 82, 83, 90, 91, 98))


def no_answer(number: int, text: str) -> Answer:
    """The answer that stands for curl's error ``number``; its text goes into the reason."""
    if number == TIMED_OUT:
        code = "timed_out"
    elif number in TLS_FAILURES:
        code = "tls_failed"
    else:
        code = "connection_failed"
    return Answer(0, code, f"{CODES[code]} (curl {number}: {text})")


def answer_of(status: int, head: bytes, body: bytes, whole: bool) -> Answer:
    """The service's answer, from the lines of its head and its body.

    If not the ``whole`` of it is asked for, only whether to try again is told (overload, a service that starts or
    stops), and that the request was too large: anything else is ``Answer(0)``, passed over.
    """
    answer = _read(status, head, body)
    if whole or status == 413 or (answer.retryable and status != 200):
        return answer
    return Answer(0)


def _read(status: int, head: bytes, body: bytes) -> Answer:
    pause = None
    for line in head.split(b"\r\n"):
        name, _, value = line.decode("latin-1").partition(":")
        if name.strip().lower() == "retry-after":
            pause = value.strip()
    return read_answer(status, body, pause)
