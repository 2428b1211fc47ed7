"""docs/reference/audiences.md against the definitions and their limits."""

from __future__ import annotations

import re
from typing import get_args

from hookline.connections.check import AUDIENCES_MAX, COMPUTED_TRAITS_MAX
from hookline.connections.definitions.check import CLAUSES_MAX, DEPTH_MAX, PERSON_FIELDS
from hookline.connections.definitions.model import (
    COUNT_MAX,
    SYNC_SECONDS_MAX,
    TERMS_MAX,
    WITHIN_SECONDS_MAX,
    Aggregate,
    Condition,
    trait_name,
)
from hookline.connections.file import check_text
from hookline.people.definitions.aggregates import UNIQUE_LIST_MAX
from hookline.settings import DAY_SECONDS
from tests.docs.pages import DOCS, section

PAGE = "reference/audiences.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    lines = re.findall(r"^\| (.*) \|$", section(PAGE, heading), re.MULTILINE)
    return [[cell.strip(" `") for cell in line.split(" | ")] for line in lines[1:] if "---" not in line]


def test_the_example_is_right() -> None:
    """The definitions of the page pass the check, beside the destination that they name."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", (DOCS / PAGE).read_text(), re.MULTILINE | re.DOTALL)
    crm = "destinations: [{id: crm, name: CRM, settings: {webhooks: [{url: 'https://crm.example.com'}]}}]\n"
    assert check_text(crm + text) == []


def test_every_key_and_aggregate_is_there() -> None:
    """The tables list exactly what there is."""
    heading = section(PAGE, "Conditions").split("### ")[0]
    keys = re.findall(r"^\| `(\w+)`", heading, re.MULTILINE)
    keys += [row[0] for row in rows("Events and counts")]
    assert sorted(keys) == sorted(Condition.__struct_encode_fields__)
    assert [row[0] for row in rows("Traits of the person")] == list(PERSON_FIELDS)
    assert [row[0] for row in rows("Computed traits")] == list(get_args(Aggregate))


def test_names_become_the_traits_of_the_table() -> None:
    """What the page says a name becomes, it becomes."""
    examples = rows("The trait's name")
    assert [trait_name(name) for name, _ in examples] == [trait for _, trait in examples]
    assert len(examples) > 1


def test_limits_are_the_real_ones() -> None:
    """Each number of the table is the one that is enforced."""
    numbers = [int(row[-1].replace(",", "")) for row in rows("Limits")]
    days = [WITHIN_SECONDS_MAX / DAY_SECONDS, SYNC_SECONDS_MAX / DAY_SECONDS]
    bounds = [DEPTH_MAX, CLAUSES_MAX, TERMS_MAX, COUNT_MAX, UNIQUE_LIST_MAX]
    assert numbers == [AUDIENCES_MAX, COMPUTED_TRAITS_MAX, *bounds, *days]
