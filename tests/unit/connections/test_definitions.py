"""Audiences and computed traits beside sources and destinations: in the file, in the store, and in its past."""

from __future__ import annotations

import pytest

from hookline.connections import file
from hookline.connections.definitions.model import Audience, ComputedTrait, Condition
from hookline.connections.edits import Delete, Put
from hookline.connections.history import KINDS
from hookline.connections.past import way_back
from hookline.connections.state import Feed
from hookline.connections.store import ChangeRefused, Store
from hookline.database.location import DatabaseLocation
from tests.unit.connections.examples import change, destination, ends, source

TEXT = """\
destinations:
  - id: crm
    name: CRM
    settings:
      webhooks:
        - {url: "https://crm.example.com/hook"}
audiences:
  - id: big_spenders
    name: Big Spenders
    destinations: [crm]
    syncEvery: 30s
    condition:
      all:
        - {event: Order Completed, count: {gte: 2}, within: 30d, where: 'properties.total >= 100'}
        - {if: 'traits.plan = "pro" and computed.total_spend > 100'}
        - not: {audience: lost}
  - {id: lost, name: Lost, condition: {event: Order Completed, never: true, within: 90d}}
computedTraits:
  - {id: total_spend, name: Total Spend, event: Order Completed, aggregate: sum, property: properties.total}
"""

LOST = Audience(id="lost", name="Lost", condition=Condition(event="Order", never=True, within="90d"))
SPEND = ComputedTrait(id="spend", name="Spend", event="Order", aggregate="sum", property="properties.total")
BIG = Audience(
    id="big",
    name="Big",
    destinations=("crm",),
    condition=Condition(all=(Condition(audience="lost"), Condition(if_="computed.spend > 1"))),
)


def apply(store: Store, text: str, prune: bool = False) -> file.Applied:
    """Apply a file."""
    return file.apply(store, text, "somebody", ends(0), prune=prune)


def test_a_file_is_applied_and_exported(store: Store) -> None:
    """What is exported is read back as the same objects: applied again, nothing changes."""
    assert file.check_text(TEXT) == []
    applied = apply(store, TEXT)
    assert [(each.action, each.kind, each.id) for each in applied.changes] == [
        ("create", "destination", "crm"),
        ("create", "audience", "big_spenders"),
        ("create", "audience", "lost"),
        ("create", "computedTrait", "total_spend"),
    ]
    again = apply(store, file.export(store.snapshot()))
    assert {each.action for each in again.changes} == {"keep"}
    assert again.version == applied.version


def test_moments_need_no_quotes(store: Store) -> None:
    """YAML would make a date of them; they are the text that the API takes."""
    within = "event: Order Completed, never: true, within: 90d"
    between = "event: Order Completed, between: [2026-11-01, 2026-12-01T06:00:00Z]"
    applied = apply(store, TEXT.replace(within, between))
    assert applied.problems == ()
    stored = store.audience("lost")
    assert stored is not None
    assert stored.object.condition.between == ("2026-11-01", "2026-12-01T06:00:00Z")


def test_a_change_is_told_field_by_field(store: Store) -> None:
    """A condition is compared clause by clause, so that a change of one number is one line."""
    apply(store, TEXT)
    applied = file.diff(store, TEXT.replace("gte: 2", "gte: 3"))
    (changed,) = [each for each in applied.changes if each.action == "change"]
    assert [(each.path, each.before, each.after) for each in changed.fields] == [("condition.all[0].count.gte", 2, 3)]


WRONG = [
    ("count: {gte: 2}", "count: {gt: 2}", "unknown_key", "audiences[0].condition.all[0].count.gt", 14),
    ("within: 30d", "within: 30w", "invalid_definition", "audiences[0].condition.all[0].within", 14),
    ("traits.plan", "trait.plan", "invalid_definition", "audiences[0].condition.all[1].if", 15),
    ("{audience: lost}", "{audience: los}", "unknown_definition", "audiences[0].condition.all[2].not.audience", 16),
    ("[crm]", "[shop]", "unknown_destination", "audiences[0].destinations[0]", 10),
    ("aggregate: sum", "aggregate: total", "invalid_value", "computedTraits[0].aggregate", 19),
    ("name: Total Spend", "name: lost", "duplicate_trait", "audiences[1].name", 17),
    ("name: Lost", "name: 7", "invalid_value", "audiences[1].name", 17),
    ("id: lost", "id: big_spenders", "duplicate_id", "audiences[1].id", 17),
]


@pytest.mark.parametrize(("right", "wrong", "code", "path", "line"), WRONG)
def test_a_mistake_is_found_in_its_line(right: str, wrong: str, code: str, path: str, line: int) -> None:
    """Shapes, expressions, names and references, each at its path and line."""
    problems = file.check_text(TEXT.replace(right, wrong))
    assert (code, path, line) in [(each.code, each.path, each.line) for each in problems]


def test_what_is_named_cannot_be_deleted(store: Store) -> None:
    """A destination that is told, an audience and a computed trait that are asked for, stay until nobody names them."""
    change(store, source(), destination(), Put(LOST), Put(SPEND), Put(BIG))
    for kind, id, code in (
        ("destination", "crm", "destination_in_use"),
        ("audience", "lost", "definition_in_use"),
        ("computedTrait", "spend", "definition_in_use"),
    ):
        (wanted,) = [each for each in KINDS if each == kind]
        with pytest.raises(ChangeRefused) as refused:
            change(store, Delete(wanted, id))
        assert [each.code for each in refused.value.problems] == [code]
    change(store, Delete("destination", "crm"), Delete("audience", "big"), Delete("audience", "lost"))
    assert [each.id for each in store.snapshot().audiences] == []
    assert store.computed_trait("spend") is not None


def test_a_change_is_looked_at_with_all_others(store: Store) -> None:
    """A cycle and a name that is taken are found although only one of the two is changed."""
    change(store, source(), destination(), Put(LOST), Put(SPEND), Put(BIG))
    round_about = Audience(id="lost", name="spend", condition=Condition(audience="big"))
    with pytest.raises(ChangeRefused) as refused:
        change(store, Put(round_about))
    assert [(each.code, each.path) for each in refused.value.problems] == [
        ("audience_cycle", "condition.audience"),
        ("duplicate_trait", "name"),
    ]


def test_names_may_be_swapped_in_one_change(store: Store) -> None:
    """What counts is how things are after the change."""
    change(store, Put(LOST), Put(SPEND))
    change(store, Put(Audience(id="lost", name="Spend", condition=LOST.condition)), Put(renamed("Lost")))
    assert store.audience("lost") is not None


def renamed(name: str) -> ComputedTrait:
    """The computed trait under another name."""
    return ComputedTrait(id="spend", name=name, event="Order", aggregate="count")


def test_the_file_deletes_what_it_no_longer_has(store: Store) -> None:
    """With prune everything goes at once, in an order in which nothing is left naming what is gone."""
    apply(store, TEXT)
    applied = apply(store, "sources: []\n", prune=True)
    assert applied.problems == ()
    assert [(each.action, each.kind) for each in applied.changes] == [
        ("delete", "computedTrait"),
        ("delete", "audience"),
        ("delete", "audience"),
        ("delete", "destination"),
    ]
    assert store.snapshot().audiences == ()


def test_an_earlier_version_comes_back(store: Store) -> None:
    """What came since goes, what went comes back, and each as it was."""
    version = change(store, source(), destination(), Put(LOST), Put(SPEND), Put(BIG))
    before = store.snapshot()
    change(store, Delete("audience", "big"), Put(renamed("Other")))
    change(store, Put(Audience(id="new", name="New", condition=LOST.condition)))
    changes, edits = way_back(store, version)
    assert sorted((each.action, each.id) for each in changes) == [
        ("change", "spend"),
        ("create", "big"),
        ("delete", "new"),
    ]
    change(store, *edits)
    after = store.snapshot()
    assert (after.audiences, after.computed_traits) == (before.audiences, before.computed_traits)


def test_a_role_follows_the_kinds_it_needs(store: Store, location: DatabaseLocation) -> None:
    """Who routes events does not load definitions; who judges people does, as they change."""
    change(store, source(), destination(), Put(LOST))
    routing, judging = Feed(location), Feed(location, kinds=("audience", "computedTrait"))
    assert routing.load().audiences == ()
    assert [each.id for each in judging.load().audiences] == ["lost"]
    change(store, Put(SPEND), Delete("audience", "lost"))
    followed = judging.poll()
    assert followed is not None
    assert (followed.audiences, followed.computed_traits, followed.sources) == ((), (SPEND,), ())
    routing.close()
    judging.close()
