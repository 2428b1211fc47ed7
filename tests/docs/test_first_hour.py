"""The lines that people paste in their first hour: the README's, the tutorials' and those of other pages.

Each is run as it stands there, against one service; only ports, keys and the data folder are this service's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.service.client import send
from tests.service.harness import WRITE_KEY, Hookline, Receiver, free_port, wait_until, webhook

PAGE = DOCS / "how-to" / "use-the-api.md"
TUTORIALS = DOCS / "tutorials"
KEY = "wk_shop_change_me"


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """A service with a source, as ``make run`` leaves one, and the destination that the pages speak of."""
    with Hookline(tmp_path_factory.mktemp("first"), [webhook("crm", f"http://127.0.0.1:{free_port()}/")]) as running:
        yield running


def test_every_call_of_the_api_page_works(hookline: Hookline) -> None:
    """Its blocks in their order; each answer is no error, and the event they send can be looked up."""
    answers: list[dict[str, Any]] = []
    token = hookline.admin_token
    for language, block in blocks(PAGE):
        if language == "sh" and not block.startswith("export AUTH="):
            if KEY in block and "/v1/track" in block:  # a new key works within a second
                wait_until(lambda: hookline.post("/v1/track", {}, key=KEY).status == 400, what="the key is known")
            answers += documents(run(hookline, block, token))
            token = next((answer["text"] for answer in answers if "text" in answer), token)
        elif language == "bash":
            assert run(hookline, block, token).split() == ["crm"]
    assert token.startswith("hkt_write_")
    assert [answer for answer in answers if "requestId" in answer or answer.get("success") is False] == []
    assert [answer["event"]["event"] for answer in answers if "receivedAt" in answer] == ["Order Completed"]


def test_the_error_of_the_api_page_is_the_one_it_shows(hookline: Hookline) -> None:
    """Status, code and sentence of the example are those of a real answer."""
    ((_, block),) = [each for each in blocks(PAGE) if each[0] == "console"]
    command, _, shown = block.removeprefix("$ ").partition("\n")
    (answer,) = documents(run(hookline, command, hookline.admin_token))
    for field in ("type", "title", "status", "detail", "code"):
        assert f'"{field}": {json.dumps(answer[field])}' in shown


@pytest.mark.parametrize("page", ["reference/signing.md", "reference/filters.md", "how-to/make-an-audience.md"])
def test_calls_of_other_pages_work(page: str, hookline: Hookline) -> None:
    """A ``curl`` line of a page is one that the admin API takes."""
    commands = [block.partition("\nhookline ")[0] for _, block in blocks(DOCS / page) if block.startswith("curl")]
    assert commands
    for command in commands:
        assert "requestId" not in documents(run(hookline, command, hookline.admin_token))[0]


def test_the_readmes_first_event(hookline: Hookline) -> None:
    """Both of its ways to send one: the line to paste, and the program."""
    found = blocks(ROOT / "README.md")
    (line,) = [block for _, block in found if block.startswith("curl") and "/v1/track" in block]
    assert documents(run(hookline, line, ""))[0]["success"] is True
    (program,) = [block for language, block in found if language == "python"]
    text = program.replace("WRITE_KEY", WRITE_KEY).replace(":8080", f":{hookline.collect_port}")
    before = len(hookline.api("GET", "events").json["items"])
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
    wait_until(lambda: len(hookline.api("GET", "events").json["items"]) == before + 1, what="the program's event")


def test_the_first_event_in_five_minutes(hookline: Hookline) -> None:
    """What the listener, `why` and the replay show is what the tutorial says."""
    port = free_port()
    here, listener = {"8090": str(port)}, f"listen-{port}"
    shell = [block for language, block in blocks(TUTORIALS / "first-event.md") if language == "sh"]
    first, why, second, replay = [block for block in shell if "first-" in block or "replay" in block]
    with listening(hookline, port) as printed:
        assert documents(run(hookline, first, "", here))[0]["success"] is True
        wait_until(lambda: re.search("Signed Up by u1  ✓ signed  first-1", printed.read_text()), what="the first event")
        hookline.wait_status("first-1", listener, "delivered")
        assert "delivered" in run(hookline, why, "", here)
    with listening(hookline, port, "--status", "503"):
        call, _, why = second.rpartition("hookline ")
        run(hookline, call, "", here)
        hookline.wait_status("first-2", listener, "retrying")
        assert "retrying" in run(hookline, f"hookline {why}", "", here)
    with listening(hookline, port) as printed:
        run(hookline, replay, "", here)
        wait_until(lambda: {"first-1", "first-2"} <= set(printed.read_text().split()), what="both events")


def test_the_quick_start_with_the_api(hookline: Hookline) -> None:
    """Every block in its order: no answer is an error, and the receiver gets what the page says."""
    answers: list[dict[str, Any]] = []
    with Receiver() as receiver:
        for language, block in blocks(TUTORIALS / "quick-start-with-the-api.md"):
            if language != "sh":
                continue
            if "web-1" in block and "/v1/track" in block:  # a new key works within a second
                wait_until(lambda: hookline.post("/v1/track", {}, key="wk_web_change_me").status == 400, what="the key")
            answers += documents(run(hookline, block, hookline.admin_token, {":8090": f":{receiver.port}"}))
            for id in re.findall(r'"messageId": "(web-\d)"', block):
                hookline.wait_status(id, "shop", "delivered")
        assert [answer for answer in answers if "requestId" in answer or answer.get("success") is False] == []
        for id in ("web-1", "web-2"):
            wait_until(lambda id=id: len(receiver.of(id)) == 2, what="the replay")  # type: ignore[misc]


PROGRAMS = {"python": "receiver.py", "js": "receiver.mjs", "go": "receiver.go"}


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_receivers_of_the_tutorial(language: str, hookline: Hookline, tmp_path: Path) -> None:
    """Each refuses what is not signed, prints an event once, and gets what came while it was stopped."""
    page = blocks(TUTORIALS / "build-a-receiver.md")
    port = free_port()
    here = {"9000": str(port), "[website]": "[site]", "mine": f"mine-{language}"}
    written = {name: _here(block, here) for name, block in page if name in (*PROGRAMS, "yaml")}
    (tmp_path / PROGRAMS[language]).write_text(written[language])
    (hookline.folder / f"mine-{language}.yaml").write_text(written["yaml"])
    by_hand, connect, first, second = [block for name, block in page if name == "sh"]
    with receiving(language, tmp_path, port) as printed:
        assert run(hookline, by_hand, "", here).strip() == "401"
        run(hookline, connect, "", here)
        call, _, why = first.rpartition("hookline ")
        run(hookline, call, "", here)
        wait_until(lambda: f"got track Signed Up mine-{language}-1\n" in printed.read_text(), what="the event")
        hookline.wait_status(f"mine-{language}-1", f"mine-{language}", "delivered")
        assert "delivered" in run(hookline, f"hookline {why}", "", here)
    call, _, why = second.rpartition("hookline ")
    run(hookline, call, "", here)
    hookline.wait_status(f"mine-{language}-2", f"mine-{language}", "retrying")
    with receiving(language, tmp_path, port) as printed:
        wait_until(lambda: f"got track Order Completed mine-{language}-2\n" in printed.read_text(), what="the event")


def test_the_intake_of_come_from_hookdeck(hookline: Hookline, tmp_path: Path) -> None:
    """A provider's webhook becomes an event with the provider's id."""
    port = free_port()
    page = [
        (name, _here(block, {"9100": str(port)})) for name, block in blocks(DOCS / "how-to" / "come-from-hookdeck.md")
    ]
    ((_, program),) = [each for each in page if each[0] == "python"]
    ((_, call),) = [each for each in page if each[0] == "sh"]
    (tmp_path / "intake.py").write_text(program)
    environment = {"WRITE_KEY": WRITE_KEY, "HOOKLINE": f"http://127.0.0.1:{hookline.collect_port}"}
    with _printed([sys.executable, "intake.py"], tmp_path, environment):
        wait_until(lambda: _answers(port, 501, "GET"), what="the intake answers")
        assert run(hookline, call, "").strip() == "200"
    answer = hookline.api("GET", "events/evt_1").json
    assert (answer["event"]["event"], answer["event"]["properties"]) == ("invoice.paid", {"total": 129.5})


@contextmanager
def receiving(language: str, folder: Path, port: int) -> Iterator[Path]:
    """Run a program of the tutorial for the time of the context; yield the file that it prints to."""
    command = {"python": [sys.executable, "receiver.py"], "js": ["node", "receiver.mjs"], "go": ["./receiver"]}[
        language
    ]
    if language == "go":
        environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
        subprocess.run(["go", "build", "receiver.go"], cwd=folder, env=environment, check=True, timeout=240)
    with _printed(command, folder, {"SECRET": "change-me"}) as printed:
        wait_until(lambda: _answers(port), what="the receiver answers")
        yield printed


@contextmanager
def listening(hookline: Hookline, port: int, *options: str) -> Iterator[Path]:
    """Run ``hookline listen`` for the time of the context; yield the file that it prints to."""
    command = [sys.executable, "-m", "hookline", "listen", "--port", str(port), *options]
    with _printed(command, hookline.folder, {}) as printed:
        wait_until(lambda: "listening on" in printed.read_text(), what="the listener")
        yield printed


@contextmanager
def _printed(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    printed = folder / "printed"
    with printed.open("w") as file:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
    try:
        yield printed
    finally:
        process.terminate()
        process.wait(timeout=60)


def _answers(port: int, status: int = 401, method: str = "POST") -> bool:
    try:
        return send(port, method, "/", {}, {"X-Signature": "00"}).status == status
    except OSError:
        return False


def test_every_file_of_the_readme_is_there() -> None:
    """No link of it leads nowhere."""
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page with their languages."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def run(hookline: Hookline, text: str, token: str, here: Mapping[str, str] | None = None) -> str:
    """Run lines of a page in a shell, with what is of this service in them; return what they print."""
    of_the_service = {
        ":8080": f":{hookline.collect_port}",
        ":8081": f":{hookline.control_port}",
        "hookline-data/": f"{hookline.data}/",
        "WRITE_KEY": WRITE_KEY,
    }
    text = _here(text, {**of_the_service, **(here or {})})
    api = f"http://127.0.0.1:{hookline.control_port}/api/v1"
    names = f"TOKEN={token}; AUTH='Authorization: Bearer {token}'; API={api}\n"
    names += f'hookline() {{ "{sys.executable}" -m hookline "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", names + text],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=hookline.folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _here(text: str, changes: Mapping[str, str]) -> str:
    for written, here in changes.items():
        text = text.replace(written, here)
    return text


def documents(text: str) -> list[dict[str, Any]]:
    """The JSON objects that commands printed, one behind the other."""
    found, text, decoder = [], text.strip(), json.JSONDecoder()
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].strip()
    return found
