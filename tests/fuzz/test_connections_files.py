"""Connections files: good ones from the documentation, altered, damaged, and with what YAML has in store."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
import yaml

from hookline.connections import file
from hookline.connections.check import Problem, ProblemCode
from hookline.connections.file_shape import Configuration
from hookline.connections.model import Snapshot
from hookline.connections.store import Store
from tests.fuzz.cases import Cases
from tests.fuzz.mutations import altered, damaged, weighted
from tests.fuzz.test_mappings import SETTINGS, kinds_with_requests
from tests.unit.connections.examples import ends

CASES = 500
ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
SECTION = re.compile(r"^(?:destinations|audiences|computedTraits|notifications):", re.MULTILINE)
SCALARS = (
    *(
        "~",
        "yes",
        "No",
        ".nan",
        "-.inf",
        "0x1F",
        "0o17",
        "1_000",
        "1:30:00",
        "1" + ":1" * 200 + ".0",
        "1e999",
        "9" * 5_000,
    ),
    *(
        "2026-11-25",
        "2026-11-25T25:61:00Z",
        "!!bool maybe",
        '!!int ""',
        '!!float ""',
        "!!float x",
        "!!binary x",
        "!!str 5",
    ),
    *(
        "!!set x",
        "!!seq x",
        "!!null x",
        "!!timestamp x",
        "!mine x",
        "!!python/name:os.system x",
        "=",
        "<<",
        "!!map {a: 1}",
    ),
    *(
        "|\n  a\n  b\n",
        ">-\n  a\n",
        '"\\ud83d"',
        '"\\U00110000"',
        '"\\x00\\n"',
        "'a''b'",
        "&a a",
        "*a",
        "&a [*a]",
        "?",
        "@a",
        "`a",
    ),
    *(
        "[]",
        "{}",
        "[1, [2]]",
        "{a: {b: c}}",
        "x" * 70_000,
        "[" * 40 + "]" * 40,
        "{<<: {a: 1}}",
        "{<<: [*a, {b: 1}], b: 2}",
    ),
)
LINES = (
    *(
        "---",
        "...",
        "%YAML 1.1",
        "%TAG ! tag:x,2000:",
        "# a: b",
        "- 1",
        "<<: *a",
        "? [a]\n: b",
        "\t",
        "a: &a {b: *a}",
        "\ufeff",
    ),
    "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30))]),
    "\n".join(["s0: &s0 {k: x}", *(f"s{n}: &s{n} {{<<: *s{n - 1}, k{n}: *s{n - 1}}}" for n in range(1, 30))]),
    "\n".join(f"{'  ' * depth}a:" for depth in range(40)),
)
UNPLACED = ("invalid_yaml", "file_unreadable", "more_problems")
"""Codes of problems that may stand without a line: the file as a whole is wrong, or others are counted."""
SHARE_APPLIED = 0.1
"""Of the files without a problem, which are applied to a store and exported from it."""
SECONDS_MAX = 20.0
"""A file that stands for a million values takes some; what is not bounded takes years."""


@cache
def documents() -> tuple[Any, ...]:
    """Good files as decoded values: the example, those of the documentation, and one for each kind with requests."""
    texts = [(ROOT / "examples/connections.yaml").read_text()]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        texts += [block for block in BLOCK.findall(page.read_text()) if SECTION.search(block)]
    found = [_whole(yaml.safe_load(text)) for text in texts]
    for kind, settings in SETTINGS.items():
        made = {"id": "d", "name": "D", "kind": kind, "sources": ["web"], "settings": settings}
        mapping = {"mapping": kinds_with_requests()[kind] or [{"name": "r", "url": "https://h.example.com/{{userId}}"}]}
        found += [_whole({"destinations": [{**made, **more}]}) for more in (mapping, {}) if more or kind != "http"]
    good = tuple(each for each in found if file.check_text(json.dumps(each)) == [])
    assert len(good) > len(SETTINGS) + 10
    return good


def _whole(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what it names and does not have."""
    made = {each["id"] for each in document.get("sources") or ()}
    named = {name for each in document.get("destinations") or () for name in each.get("sources", ())}
    others = [{"id": name, "name": name, "writeKeys": [f"wk_{name}"]} for name in sorted(named - made)]
    if "destinations" not in document:
        url = {"url": "https://crm.example.com/hook"}
        document = {**document, "destinations": [{"id": "crm", "name": "CRM", "settings": {"webhooks": [url]}}]}
    return {**document, "sources": [*(document.get("sources") or ()), *others]}


def content(random: Random) -> bytes:
    """The bytes of a file."""
    document = random.choice(documents())
    if random.random() < 0.6:
        document = altered(random, document, (random.choice(documents()), *random.choice(documents()).values()))
    if random.random() < 0.4:
        text = json.dumps(document, ensure_ascii=random.random() < 0.5, indent=random.choice((None, 1)))
    else:
        text = yaml.safe_dump(
            document, sort_keys=False, allow_unicode=True, default_flow_style=random.choice((None, False))
        )
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        text = _with_yaml(random, text)
    data = text.encode("utf-8", "surrogatepass")
    if random.random() < 0.2:
        return damaged(random, data)
    return weighted(
        random, data, (b"\xef\xbb\xbf" + data, text.encode("utf-16", "surrogatepass"), b"\xff" + data), 0.03
    )


def _with_yaml(random: Random, text: str) -> str:
    """The text with another scalar, or another line."""
    values = [found.span(1) for found in re.finditer(r"(?:: |- )([^\s{\[][^\n,}\]]*)", text)]
    if values and random.random() < 0.7:
        start, end = random.choice(values)
        return text[:start] + random.choice(SCALARS) + text[end:]
    lines = text.split("\n")
    at = random.randrange(len(lines) + 1)
    return "\n".join([*lines[:at], random.choice(LINES), *lines[at:]])


def check_problems(problems: list[Problem], lines: int) -> None:
    """Each with a code of the list, words, and where it is."""
    for problem in problems:
        assert problem.code in get_args(ProblemCode)
        assert problem.message
        assert problem.line is None or 1 <= problem.line <= lines + 1, problem
        assert problem.line is not None or problem.code in UNPLACED, problem


def snapshot(configuration: Configuration) -> Snapshot:
    """What a file says, as if it were in force."""
    return Snapshot(
        version=1,
        sources=tuple(each for _, each in configuration.sources),
        destinations=tuple(each for _, each in configuration.destinations),
        audiences=tuple(each for _, each in configuration.audiences),
        computed_traits=tuple(each for _, each in configuration.computed_traits),
        notifications=tuple(each for _, each in configuration.notifications),
    )


def check_file(random: Random, path: Path, store: Store) -> None:
    """Problems with their places; or an export that says the same again, and that changes nothing when applied."""
    begun = time.process_time()
    data = content(random)
    path.write_bytes(data)
    problems = file.check(path)
    check_problems(problems, len(data.decode("utf-8", "replace").splitlines()))
    if not problems:
        text, _ = file.load(path)
        configuration, _ = file.read(text)
        exported = file.export(snapshot(configuration))
        again, problems = file.read(exported)
        assert problems == []
        assert file.export(snapshot(again)) == exported
        assert [each.id for _, each in again.objects()] == [each.id for _, each in configuration.objects()]
        if random.random() < SHARE_APPLIED:
            check_applied(text, store)
    assert time.process_time() - begun < SECONDS_MAX


def check_applied(text: str, store: Store) -> None:
    """Applied as a whole or not at all, and exported as what is there."""
    assert file.apply(store, "", "fuzz", ends(), prune=True).problems == ()
    version = store.version
    applied = file.apply(store, text, "fuzz", ends(5))
    if applied.problems:
        assert store.version == version
        return
    exported = file.export(store.snapshot())
    again = file.apply(store, exported, "fuzz", ends(9))
    assert again.problems == ()
    assert {change.action for change in again.changes} <= {"keep"}
    assert (file.export(store.snapshot()), store.version) == (exported, again.version)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    opened = Store(tmp_path / "control.db")
    yield opened
    opened.close()


def test_no_file_does_harm(cases: Cases, tmp_path: Path, store: Store) -> None:
    """Read as what it says, or refused with what is wrong and where."""
    path = tmp_path / "connections.yaml"
    number = cases.run("files", CASES, lambda random: check_file(random, path, store))
    print(f"{number} connections files")
