"""The Flask example under gunicorn with --preload: the client is made before the workers are forked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, request
from werkzeug.local import LocalProxy

from hookline_client import InvalidOption
from hookline_client.encoding import encode
from hookline_client.frameworks.flask import Hookline
from hookline_client.testing import RecordingTransport
from tests.clients.python.frameworks.conftest import Shop
from tests.service.harness import Receiver, wait_until


def test_every_worker_sends_and_nothing_is_sent_twice(
    shop: Shop, arrivals: Receiver, bodies_of: Callable[[list[str]], list[dict[str, Any]]]
) -> None:
    """Requests to two workers, stopped at once: each call arrives once, that from before the fork too."""
    shop.serve("-m", "gunicorn", "--preload", "-w", "2", "--bind", f"127.0.0.1:{shop.port}", "flask_app:app")
    sent: list[str] = []
    workers: set[int] = set()
    signed, session = shop.get("/sign-up?name=ann", {"Cookie": "ajs_anonymous_id=%22a-1%22"})

    def both_answered() -> bool:
        answer, _ = shop.get("/buy?item=hat", {"Cookie": session})
        sent.extend(answer["sent"])
        workers.add(answer["pid"])
        return len(workers) == 2

    wait_until(both_answered, what="an answer of each worker")
    shop.stop()
    identify, *_ = bodies_of(signed["sent"])
    assert (identify["userId"], identify["anonymousId"]) == ("ann", "a-1")
    for bought in bodies_of(sent):
        assert bought["userId"] == "ann"
        assert bought["context"]["page"]["path"] == "/buy"
    started = [request.json for request in arrivals.requests if request.json.get("event") == "Started"]
    assert len(started) == 1


def test_options_of_the_application_and_of_the_extension() -> None:
    """What the extension is given wins over ``app.config``; a wrong option is said at once."""
    app = Flask("shop")
    app.config["HOOKLINE"] = {"write_key": "wk", "flush_at": 5, "gzip": True}
    hookline = Hookline(app, flush_at=7)
    with app.app_context():
        options = hookline.client.options
        hookline.close()
    assert (options.write_key, options.flush_at, options.gzip) == ("wk", 7, True)
    with pytest.raises(InvalidOption, match="flush_at"):
        Hookline(Flask("other"), flush_ad=1)


def test_a_call_that_names_somebody_is_left_as_it_is() -> None:
    """Ids given in the call are not mixed with those of the request."""
    app, recorded = Flask("shop"), RecordingTransport()
    hookline = Hookline(app, transport=recorded, user_id=lambda: "admin")
    with app.test_request_context("/", headers={"Cookie": "ajs_anonymous_id=a-1"}):
        hookline.track("customer", "Refunded")
        hookline.page("Home", context={"page": {"title": "Home"}})
        hookline.alias("a-1")
        hookline.flush()
    refunded, viewed, joined = recorded.events
    assert (refunded["userId"], refunded.get("anonymousId")) == ("customer", None)
    assert (viewed["userId"], viewed["name"], viewed["context"]["page"]) == ("admin", "Home", {"title": "Home"})
    assert (joined["previousId"], joined["userId"]) == ("a-1", "admin")


def test_requests_within_one_application_context_are_of_their_own_users() -> None:
    """As in scripts and tests, which enter one for all of them."""
    app, recorded = Flask("shop"), RecordingTransport()
    hookline = Hookline(app, transport=recorded, user_id=lambda: request.args["user"])
    with app.app_context():
        for user in ("ann", "bob"):
            with app.test_request_context(f"/?user={user}"):
                hookline.track(event="Bought")
        hookline.flush()
    assert [each["userId"] for each in recorded.events] == ["ann", "bob"]


def test_a_call_without_an_application_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """A thread of the program's own has no context: the call returns None, and the log says why."""
    hookline = Hookline(Flask("shop"), enabled=False)
    assert hookline.track("u1", "Bought") is None
    assert "no application context" in caplog.text


def test_a_user_that_cannot_be_found_out_is_no_failure() -> None:
    """``user_id`` raises: the call is refused and counted, the request goes on."""
    app, recorded = Flask("shop"), RecordingTransport()
    hookline = Hookline(app, transport=recorded, user_id=lambda: 1 // 0)
    with app.test_request_context("/"):
        assert hookline.track(event="Bought") is None
        assert hookline.client.stats.invalid == 1
        hookline.close()


def test_proxies_of_flask_and_werkzeug_are_sent_as_what_they_stand_for() -> None:
    """Within a request, and as null where it is over."""
    app = Flask("shop")
    language: LocalProxy[str] = LocalProxy(lambda: str(request.args["lang"]))
    with app.test_request_context("/?lang=de"):
        assert json.loads(encode({"v": language, "args": request.args})) == {"v": "de", "args": {"lang": "de"}}
    assert json.loads(encode({"v": language, "b": 1})) == {"v": None, "b": 1}
