"""Deletion requests: a person's rows are gone from every table, other people's stay."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hookline.kinds.answers import Verdict
from hookline.kinds.sink import SinkEvent, SinkFailed
from tests.postgres import PLAIN_USER
from tests.unit.kinds.postgres.warehouse import Warehouse, event


def life_of(user: str, anonymous: str, source: str = "site") -> list[SinkEvent]:
    """Every sort of call that a person makes."""
    own = {"userId": user, "anonymousId": anonymous, "source": source}
    return [
        event(anonymousId=anonymous, source=source, properties={"n": 1}),
        event("page", anonymousId=anonymous, source=source, name="Home"),
        event("identify", **own, traits={"plan": "pro"}),
        event(**own, properties={"n": 2}),
        event("screen", **own, name="Start"),
        event("group", **own, groupId="g1", traits={"size": 3}),
        event("alias", userId=user, previousId=f"old-{user}", source=source),
        event(anonymousId=f"old-{user}", source=source, properties={"n": 3}),
    ]


def remarks(verdicts: Sequence[Verdict]) -> list[str]:
    """What is said of events that were all accepted."""
    assert all(each.accepted for each in verdicts)
    return [each.remark for each in verdicts]


def people(warehouse: Warehouse, schema: str = "site") -> set[str | None]:
    """Everybody who is named in a schema."""
    found: set[str | None] = set()
    for table in warehouse.tables(schema) - {"accounts"}:
        for row in warehouse.rows(f'{schema}."{table}"'):
            found |= {row.get("user_id"), row.get("anonymous_id"), row.get("previous_id")}
            found |= {row["id"]} if table == "users" else set()
    return found - {None}


def test_a_person_is_erased_from_all_tables_of_all_schemas(warehouse: Warehouse) -> None:
    """With what they did before they were known; groups and other people stay."""
    with warehouse.open() as sink:
        sink.write([*life_of("u1", "a1"), *life_of("u2", "a2"), *life_of("u1", "b1", "app")])
        assert remarks(sink.write([event("delete", userId="u1")])) == ["24 rows of 16 tables deleted"]
        assert people(warehouse) == {"u2", "a2", "old-u2"}
        assert people(warehouse, "app") == set()
        assert warehouse.rows("site.accounts", "id") == [("g1",)]
        before = warehouse.everything()
        assert remarks(sink.write([event("delete", userId="u1")])) == ["no rows were there"]
        assert remarks(sink.write([event("delete", userId="never seen")])) == ["no rows were there"]
    assert warehouse.everything() == before


def test_messages_that_are_carried_out_together_have_one_count(warehouse: Warehouse) -> None:
    """It says for how many, and another one of the same batch, behind an event, has its own."""
    warehouse.write(event(userId="u1"), event(userId="u2"), event(userId="u3"))
    both = [event("delete", userId="u1"), event("delete", userId="u2")]
    found = warehouse.write(*both, event(userId="u4"), event("delete", userId="u3"))
    together = "4 rows of 2 tables deleted, for 2 delete messages together"
    assert remarks(found) == [together, together, "", "2 rows of 2 tables deleted"]


def test_events_of_the_same_batch_are_erased_as_they_stand(warehouse: Warehouse) -> None:
    """What came before the request is gone, what came after it is kept."""
    before, after = event(userId="u1", properties={"n": 1}), event(userId="u1", properties={"n": 2})
    assert remarks(warehouse.write(before, event("delete", userId="u1"), after))[1]
    assert warehouse.rows("site.order_completed", "n") == [(2,)]
    assert remarks(warehouse.write(before, event("delete", userId="u1"), after))[1]
    assert warehouse.rows("site.order_completed", "n") == [(2,)]


def test_a_device_that_two_people_share(warehouse: Warehouse) -> None:
    """Its anonymous rows go with the first of them, the rows that name the other one stay."""
    warehouse.write(
        event(anonymousId="shared", properties={"n": 1}),
        event("identify", userId="u1", anonymousId="shared"),
        event("identify", userId="u2", anonymousId="shared"),
        event("delete", userId="u1"),
    )
    assert warehouse.rows("site.order_completed", "n") == []
    assert warehouse.rows("site.identifies", "user_id") == [("u2",)]


def test_an_anonymous_id_of_the_request_is_erased_too(warehouse: Warehouse) -> None:
    """Where a request has one."""
    warehouse.write(event(anonymousId="a1"), event(anonymousId="a2"), event("delete", userId="u1", anonymousId="a1"))
    assert warehouse.rows("site.tracks", "anonymous_id") == [("a2",)]


def test_only_our_tables_are_touched(warehouse: Warehouse) -> None:
    """Neither those of somebody else nor those behind another prefix."""
    warehouse.run("CREATE TABLE public.crm (id text, user_id text)")
    warehouse.run("INSERT INTO public.crm VALUES ('1', 'u1')")
    warehouse.write(event(userId="u1"), schemaPrefix="one_")
    warehouse.write(event(userId="u1"), schemaPrefix="two_")
    warehouse.write(event("delete", userId="u1"), schemaPrefix="one_")
    assert warehouse.run("SELECT count(*) FROM public.crm") == [(1,)]
    assert warehouse.rows("one_site.tracks") == []
    assert len(warehouse.rows("two_site.tracks")) == 1


def test_an_empty_database_has_nothing_to_erase(warehouse: Warehouse) -> None:
    """The request is accepted."""
    assert remarks(warehouse.write(event("delete", userId="u1"))) == ["no rows were there"]


def test_a_table_whose_rows_may_not_be_deleted_keeps_the_request_waiting(warehouse: Warehouse) -> None:
    """It is never taken for done."""
    warehouse.server.plain_url(warehouse.name)
    warehouse.write(event(userId="u1"))
    warehouse.run(f"GRANT USAGE ON SCHEMA site TO {PLAIN_USER}")
    warehouse.run(f"GRANT INSERT, SELECT ON ALL TABLES IN SCHEMA site TO {PLAIN_USER}")
    with pytest.raises(SinkFailed, match=r"rows of site\.order_completed may not be deleted; grant the user"):
        warehouse.write(event("delete", userId="u1"), user=PLAIN_USER)
    assert len(warehouse.rows("site.tracks")) == 1
