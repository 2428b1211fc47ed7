"""The admin API against its own description: whatever fits it, or does not, is answered without a fault."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.api.described import described
from tests.unit.control.running import BEARER, Running, destination, record, source

if TYPE_CHECKING:
    from schemathesis import Case
    from schemathesis.schemas import APIOperation

EXAMPLES = 6
"""Of each operation; they are the same in every run."""
ENDLESS = {"streamEvents"}
"""Answers that only end with the server; the live stream has tests of its own."""
KNOWN = {
    "sources": "site",
    "destinations": "crm",
    "audiences": "big",
    "computed-traits": "spend",
    "users": "u1",
    "tokens": "t1",
    "replays": "r2",
    "events": "m1",
    "audit-log": "1",
    "dead-letters": "1",
    "notices": "1",
    "connections": "1",
}
"""Objects that are there, so that not every address leads nowhere."""
OTHERS = "others"
"""Tags of no object that has an id."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Control with one of everything that can be made here."""
    with Running(tmp_path_factory.mktemp("described") / "data") as running:
        running.append(record("m1"))
        fill(running)
        yield running


def fill(running: Running) -> None:
    """What a call may have taken away is there again."""
    for path, body in (
        ("/sources", source()),
        ("/destinations", destination()),
        ("/computed-traits", {"id": "spend", "name": "Spend", "event": "Order", "aggregate": "count"}),
        ("/audiences", {"id": "big", "name": "Big", "condition": {"if": "computed.spend > 1"}}),
        ("/users", {"name": "vera"}),
        ("/tokens", {"name": "ci"}),
    ):
        running.api("POST", path, body)


@pytest.fixture(scope="module")
def operations() -> dict[str, list[APIOperation]]:
    """All of them by their tag. Not made before a test asks: whoever collects would make it too."""
    # Imported here for the same reason.
    import schemathesis

    found: dict[str, list[APIOperation]] = defaultdict(list)
    for each in schemathesis.openapi.from_dict(described()).get_all_operations():
        operation = each.ok()
        raw = operation.definition.raw
        if raw["operationId"] not in ENDLESS:
            found[raw["tags"][0] if raw["tags"][0] in KNOWN else OTHERS].append(operation)
    return found


@pytest.mark.parametrize("tag", [*KNOWN, OTHERS])
def test_no_call_is_answered_with_a_fault(filled: Running, operations: dict[str, list[APIOperation]], tag: str) -> None:
    """Cases made from the description, some with the id of an object that is there: no answer is a 5xx."""
    assert operations[tag]
    for operation in operations[tag]:
        fill(filled)
        call_in_many_ways(operation, KNOWN.get(tag), filled.port)


def call_in_many_ways(operation: APIOperation, known: str | None, port: int) -> None:
    """Call it with cases made from the description; what fails names the case."""
    from schemathesis.checks import not_a_server_error

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), is_known=st.booleans())
    def call(case: Case, is_known: bool) -> None:
        if is_known and known is not None:
            parameters: dict[str, Any] = dict(case.path_parameters or {})
            case.path_parameters = dict.fromkeys(parameters, known)
        answer = case.call(base_url=f"http://127.0.0.1:{port}", headers=BEARER)
        case.validate_response(answer, checks=[not_a_server_error])

    call()
