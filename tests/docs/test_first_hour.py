"""The lines that people paste in their first hour: the README's, the API quick start's and those of other pages.

Each is run as it stands there, against one service; only ports, keys and the data folder are this service's.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.service.harness import WRITE_KEY, Hookline, free_port, wait_until, webhook

PAGE = DOCS / "how-to" / "use-the-api.md"
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


def test_every_file_of_the_readme_is_there() -> None:
    """No link of it leads nowhere."""
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page with their languages."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def run(hookline: Hookline, text: str, token: str) -> str:
    """Run lines of a page in a shell; what they print."""
    for written, here in (
        (":8080", f":{hookline.collect_port}"),
        (":8081", f":{hookline.control_port}"),
        ("hookline-data/", f"{hookline.data}/"),
        ("WRITE_KEY", WRITE_KEY),
    ):
        text = text.replace(written, here)
    api = f"http://127.0.0.1:{hookline.control_port}/api/v1"
    names = f"TOKEN={token}; AUTH='Authorization: Bearer {token}'; API={api}\n"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", names + text],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=hookline.folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(text: str) -> list[dict[str, Any]]:
    """The JSON objects that commands printed, one behind the other."""
    found, text, decoder = [], text.strip(), json.JSONDecoder()
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].strip()
    return found
