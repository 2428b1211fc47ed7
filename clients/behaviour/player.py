"""Plays one case for one consumer: its steps in order, then what must have arrived."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver_process import DriverFailed, DriverProcess
from patterns import Difference, Matcher, repeated, replaced, shown
from stand_in import StandIn

CASE_SECONDS = 30.0
END_SECONDS = 15.0
"""For a driver to end after its input; libraries bound their own end by ``exit_timeout``."""
LATE_SECONDS = 8.0
"""For requests still to come when the steps are over, such as those of processes that a library leaves behind."""
SETTLE_SECONDS = 0.05
WRITE_KEY = "wk"

FIELDS = frozenset(
    [
        "name",
        "why",
        "consumers",
        "needs",
        "init",
        "options",
        "environment",
        "service",
        "refuses",
        "steps",
        "requests",
        "events",
        "ids",
    ]
)
STEP_FIELDS = frozenset(
    ["gives", "takes", "killed_at", "message", "count", "type", "fill_to", "file", "absent", "lines", "text"]
)


class Failed(Exception):
    """A case failed; the text says where and how."""


class Player:
    """One case, played once. ``play`` raises ``Failed``, or returns how long it took."""

    def __init__(self, case: dict[str, Any], consumer: str, command: str, reads_answers: bool) -> None:
        self._case = repeated(case)
        self._consumer = consumer
        self._command = command
        self._reads_answers = reads_answers
        self._matcher = Matcher()
        self._driver: DriverProcess | None = None
        self._drivers: list[DriverProcess] = []
        self._deadline = 0.0

    def play(self) -> float:
        """Play the case and return the seconds it took."""
        began = time.monotonic()
        self._deadline = began + CASE_SECONDS
        self._service = StandIn(self._case.get("service", []), self._case.get("refuses"))
        with tempfile.TemporaryDirectory(prefix="book-of-behaviour-") as folder:
            self._words = {"{dir}": folder, "{endpoint}": self._service.endpoint, "{port}": str(self._service.port)}
            try:
                self._play()
            except (Difference, DriverFailed, Failed) as error:
                raise Failed(self._described(error)) from None
            except (KeyError, TypeError, ValueError) as error:
                raise Failed(self._described(Failed(f"the book is wrong: {error!r}"))) from error
            finally:
                for driver in self._drivers:
                    driver.kill()
                self._service.end()
        return time.monotonic() - began

    def _play(self) -> None:
        unknown = set(self._case) - FIELDS
        if unknown:
            raise Failed(f"the book is wrong: a case has no field {', '.join(sorted(unknown))}")
        self._start({})
        self._service.begin()
        for index, step in enumerate(self._case.get("steps", [])):
            name = next((name for name in step if name in self._steps()), None)
            place = f"steps[{index}] {shown(step)[:100]}"
            unknown = set(step) - STEP_FIELDS - {name}
            if name is None or unknown:
                raise Failed(f"at      {place}\nthe book is wrong: there is no such step")
            if time.monotonic() > self._deadline:
                raise Failed(f"at      {place}\nthe case takes longer than {CASE_SECONDS:g} s")
            self._step(name, step, place)
        if self._driver is not None:
            self._do_end({}, "the end")
        self._check_arrived()

    def _steps(self) -> dict[str, Callable[[dict[str, Any], str], None]]:
        return {
            "call": self._do_call,
            "calls": self._do_calls,
            "flush": lambda step, place: self._do_settle("flush", step, place),
            "close": lambda step, place: self._do_settle("close", step, place),
            "close_in_handler": self._do_close_in_handler,
            "told": self._do_told,
            "upload": self._do_upload,
            "defaults": self._do_defaults,
            "fork": self._do_fork,
            "pause": lambda step, place: time.sleep(step["pause"]),
            "end": self._do_end,
            "die": self._do_die,
            "again": self._do_again,
            "arrived": self._do_arrived,
            "requests": self._do_requests,
            "lines": self._do_lines,
            "write": self._do_write,
            "absent": self._do_absent,
        }

    def _step(self, name: str, step: dict[str, Any], place: str) -> None:
        began = time.monotonic()
        self._steps()[name](step, place)
        if "takes" in step:
            least, most = step["takes"]
            took = time.monotonic() - began
            if not least <= took <= most:
                raise Difference(f"{place}, the time it takes", f"{least} to {most} s", f"{took:.3f} s")

    def _start(self, more: dict[str, Any]) -> None:
        environment = replaced(self._case.get("environment", {}), self._words)
        number = len(self._drivers) + 1
        self._driver = DriverProcess(self._command, environment, "the driver" if number == 1 else f"driver {number}")
        self._drivers.append(self._driver)
        options = {"write_key": WRITE_KEY, "endpoint": self._service.endpoint, "consumer": self._consumer}
        given = replaced({**options, **self._case.get("options", {}), **more}, self._words)
        options = {name: value for name, value in given.items() if value is not None}
        answer = self._driver.ask({"do": "init", "options": options}, self._deadline)
        self._matcher.match(self._case.get("init", {"ok": True}), answer, "init", is_whole=False)

    def _ask(self, command: dict[str, Any], step: dict[str, Any], place: str) -> dict[str, Any]:
        """Ask the driver, or kill it while it does what it is asked; then the answer is empty."""
        if self._driver is None:
            raise Failed(f"at      {place}\nthe book is wrong: no driver runs here")
        if "killed_at" not in step:
            answer = self._driver.ask(command, self._deadline)
            self._matcher.match(step.get("gives", {}), answer, f"{place}, gives", is_whole=False)
            return answer
        self._driver.tell(command)
        self._wait_for_requests(step["killed_at"], place)
        self._driver.kill()
        self._driver = None
        return {}

    def _do_call(self, step: dict[str, Any], place: str) -> None:
        fill = "x" * (step["fill_to"] - self._measured(place)) if "fill_to" in step else ""
        message = replaced(step["message"], {**self._words, "{fill}": fill})
        answer = self._ask({"do": "call", "type": step["call"], "message": message}, step, place)
        if "gives" not in step and "error" in answer:
            raise Difference(f"{place}, gives", "a call that is taken", answer)

    def _measured(self, place: str) -> int:
        """Return the bytes of the only event of the first request, as the library wrote it."""
        arrived = self._service.arrived
        if not arrived or len(arrived[0].events) != 1:
            raise Failed(f"at      {place}\nnothing to measure: the first request should have one event")
        first = arrived[0]
        envelope = json.dumps({"batch": [], "sentAt": first.body["sentAt"]}, separators=(",", ":"))
        return len(first.raw) - len(envelope.encode())

    def _do_calls(self, step: dict[str, Any], place: str) -> None:
        count = step["calls"]
        command = {"do": "calls", "count": count, "type": step["type"], "message": step["message"]}
        answer = self._ask(command, step, place)
        if "gives" not in step:
            self._matcher.match(count, answer.get("taken"), f"{place}, taken")

    def _do_settle(self, do: str, step: dict[str, Any], place: str) -> None:
        gives = dict(step.get("gives", {}))
        reads_answers = self._reads_answers or self._case.get("options", {}).get("debug", False)
        if not reads_answers and "accepted" in gives:
            gives["handed_over"] = gives.get("handed_over", 0) + gives.pop("accepted")
        self._ask({"do": do, "seconds": step[do]}, {**step, "gives": gives}, place)

    def _do_told(self, step: dict[str, Any], place: str) -> None:
        self._ask({"do": "told"}, {"gives": step["told"]}, place)

    def _do_close_in_handler(self, step: dict[str, Any], place: str) -> None:
        command = {"do": "close_in_handler", "seconds": step["close_in_handler"]}
        self._ask(command, {"gives": {"ok": True}}, place)

    def _do_upload(self, step: dict[str, Any], place: str) -> None:
        options = {
            "secret": WRITE_KEY,
            "endpoint": self._service.endpoint,
            "file": self._case.get("options", {}).get("filename"),
        }
        options = replaced({**options, **step["upload"]}, self._words)
        self._ask({"do": "upload", "options": options}, step, place)

    def _do_defaults(self, step: dict[str, Any], place: str) -> None:
        self._ask(
            {"do": "defaults", "consumer": self._consumer}, {"gives": {"options": {"$has": step["defaults"]}}}, place
        )

    def _do_fork(self, step: dict[str, Any], place: str) -> None:
        self._ask({"do": "fork", "calls": step["fork"]}, {"gives": {"exit": 0}, **step}, place)

    def _do_end(self, step: dict[str, Any], place: str) -> None:
        if self._driver is None:
            raise Failed(f"at      {place}\nthe book is wrong: no driver runs here")
        code = self._driver.end(min(self._deadline, time.monotonic() + END_SECONDS))
        self._driver = None
        if code != 0:
            came = f"still running after {END_SECONDS:g} s" if code is None else f"code {code}"
            raise Difference(f"{place}, when the driver's input ended", "an end with code 0", came)

    def _do_die(self, step: dict[str, Any], place: str) -> None:
        if self._driver is None:
            raise Failed(f"at      {place}\nthe book is wrong: no driver runs here")
        self._driver.tell({"do": "die"})
        code = self._driver.wait_killed(self._deadline)
        self._driver = None
        if code != -signal.SIGKILL:
            raise Difference(place, "an end by SIGKILL", f"code {code}")

    def _do_again(self, step: dict[str, Any], place: str) -> None:
        if self._driver is not None:
            self._do_end({}, place)
        self._start(step["again"])

    def _do_arrived(self, step: dict[str, Any], place: str) -> None:
        wanted = step["arrived"]
        self._service.wait(lambda: len(self._service.events) >= _least(wanted), self._deadline)
        self._matcher.match(wanted, len(self._service.events), place)

    def _do_requests(self, step: dict[str, Any], place: str) -> None:
        wanted = step["requests"]
        self._wait_for_requests(_least(wanted), place)
        self._matcher.match(wanted, len(self._service.arrived), place)

    def _wait_for_requests(self, count: int, place: str) -> None:
        if not self._service.wait(lambda: len(self._service.arrived) >= count, self._deadline):
            raise Difference(place, f"{count} requests", f"{len(self._service.arrived)} requests")

    def _do_lines(self, step: dict[str, Any], place: str) -> None:
        file = Path(replaced(step["file"], self._words))
        if not file.is_file():
            raise Difference(place, f"the file {file.name}", "no such file")
        text = file.read_text(encoding="utf-8")
        lines = text.split("\n")  # and at nothing else that some call a line end
        if lines.pop() != "":
            raise Difference(place, "a line end at the end", text[-60:])
        self._matcher.match_events(step["lines"], [_read(line) for line in lines], f"{place}, lines")

    def _do_write(self, step: dict[str, Any], place: str) -> None:
        with Path(replaced(step["write"], self._words)).open("a", encoding="utf-8") as file:
            file.write(step["text"])

    def _do_absent(self, step: dict[str, Any], place: str) -> None:
        if Path(replaced(step["absent"], self._words)).exists():
            raise Difference(place, "no such file", "it is there")

    def _check_arrived(self) -> None:
        case, service = self._case, self._service
        late = min(self._deadline, time.monotonic() + LATE_SECONDS)
        if "requests" in case:
            service.wait(lambda: len(service.arrived) >= len(case["requests"]), late)
        if "events" in case:
            service.wait(lambda: len(_without_repeats(service.events)) >= _least_events(case["events"]), late)
        time.sleep(SETTLE_SECONDS)  # one too many would have been sent right behind
        if self._consumer == "socket":  # its calls have a connection each, and connections are not served in order
            service.arrived.sort(key=lambda request: request.connection)
        if "requests" in case:
            self._check_requests(case["requests"])
        if "events" in case:
            self._matcher.match_events(case["events"], _without_repeats(service.events), "events")
        if "ids" in case:
            _check_ids(service.events, case["ids"])

    def _check_requests(self, wanted: list[dict[str, Any]]) -> None:
        arrived = list(self._service.arrived)
        for index, (want, came) in enumerate(zip(wanted, arrived, strict=False)):
            place = f"requests[{index}]"
            headers = {name.lower(): value for name, value in want.get("headers", {}).items()}
            self._matcher.match(headers, came.headers, f"{place}.headers", is_whole=False)
            self._matcher.match(want.get("method", "POST"), came.method, f"{place}.method")
            self._matcher.match(want.get("path", "/v1/batch"), came.path, f"{place}.path")
            if "body" in want:
                if came.body is None:
                    raise Difference(f"{place}.body", "JSON", came.raw[:500].decode(errors="replace"))
                self._matcher.match_body(want["body"], came.body, f"{place}.body")
            self._matcher.match(want.get("count", "$any"), len(came.events), f"{place}, how many events")
            self._matcher.match(want.get("bytes", "$any"), len(came.raw), f"{place}, how many bytes")
            self._matcher.match(want.get("connection", "$any"), came.connection, f"{place}, number of its connection")
            pause = came.at - arrived[max(0, index - 1)].at
            self._matcher.match(want.get("pause", "$any"), pause, f"{place}, seconds since the one before")
        if len(arrived) != len(wanted):
            raise Difference("requests", f"{len(wanted)} requests", f"{len(arrived)} requests")

    def _described(self, error: Exception) -> str:
        parts = [str(error)]
        for number, request in enumerate(self._service.arrived):
            body = request.raw[:300].decode(errors="replace") if request.body is None else shown(request.body)
            parts.append(f"arrived requests[{number}]: {request.method} {request.path} {body}")
        for driver in self._drivers:
            driver.kill()
            if text := driver.said():
                parts.append(f"{driver.name} printed:\n{text}")
        return "\n".join(parts)


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return f"no JSON: {line}"


def _without_repeats(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what the service knows already, by messageId."""
    known: dict[str, dict[str, Any]] = {}
    for number, event in enumerate(events):
        known.setdefault(str(event.get("messageId", number)), event)
    return list(known.values())


def _least(wanted: Any) -> int:
    """Return the least number that a number or its pattern allows."""
    return int(wanted["$between"][0]) if isinstance(wanted, dict) else int(wanted)


def _least_events(wanted: Any) -> int:
    return len(wanted) if isinstance(wanted, list) else _least(wanted.get("$count", 0))


def _check_ids(events: list[dict[str, Any]], rule: str) -> None:
    """``unique``: an event that came twice has the same id again; ``once``: none came twice."""
    by_id: dict[str, str] = {}
    by_content: dict[str, str] = {}
    for index, event in enumerate(events):
        content = json.dumps({name: value for name, value in event.items() if name != "messageId"}, sort_keys=True)
        message_id = str(event.get("messageId", ""))
        if by_id.setdefault(message_id, content) != content:
            raise Difference(f"events[{index}]", "one event for one messageId", f"another with {message_id}")
        # Two calls of one millisecond may say the same, so this holds only where each call says something else.
        if rule == "unique" and by_content.setdefault(content, message_id) != message_id:
            raise Difference(f"events[{index}]", f"the messageId {by_content[content]} again", message_id)
    if rule == "once" and len(by_id) != len(events):
        raise Difference("events", f"each event once, so {len(by_id)}", f"{len(events)}")
