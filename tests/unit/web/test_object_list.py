"""Lists of configured objects, one page at a time."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from hookline.connections.model import Source
from hookline.connections.state import Stored
from hookline.web.lists import ROWS_SHOWN, object_page


def sources(*names: str) -> list[Stored[Source]]:
    """Sources of these names, whose ids tell their places."""
    return [Stored(Source(id=f"s{number:03}", name=name), 1) for number, name in enumerate(names)]


def test_a_short_list_is_one_page() -> None:
    """Everything is there, and no way leads anywhere else."""
    page = object_page("/sources", sources("a", "b"), "", "")
    assert [each.object.name for each in page.rows] == ["a", "b"]
    assert (page.matching, page.first_href, page.after_href) == (2, "", "")


def test_a_long_list_is_walked_by_addresses() -> None:
    """Each page names the next one, keeps the search, and shows the way back; together they are the whole list, also
    where the last one of a page is deleted meanwhile."""
    many = sources(*(f"shop & {number:03}" for number in range(ROWS_SHOWN + 1)))
    first = object_page("/sources", many, "Shop &", "")
    query = parse_qs(urlsplit(first.after_href).query)
    assert query["search"] == ["Shop &"]
    second = object_page("/sources", many, "Shop &", query["after"][0])
    assert [*first.rows, *second.rows] == many
    del many[ROWS_SHOWN - 1]
    assert object_page("/sources", many, "Shop &", query["after"][0]).rows == second.rows
    assert (second.first_href, second.after_href) == ("/sources?search=Shop+%26", "")


def test_the_order_is_that_of_the_names_which_are_shown() -> None:
    """Capital or small; of two with one name the ids decide, on each side of a page's end too."""
    found = object_page("/sources", sources("web", "App", "blog", "Web"), "", "")
    assert [each.object.id for each in found.rows] == ["s001", "s002", "s000", "s003"]
    alike = sources(*["Shop: one"] * (ROWS_SHOWN + 2))
    after = parse_qs(urlsplit(object_page("/sources", alike, "", "").after_href).query)["after"][0]
    assert [each.object.id for each in object_page("/sources", alike, "", after).rows] == ["s050", "s051"]


def test_a_search_looks_at_names_and_ids() -> None:
    """Capital or small; what does not match is not counted."""
    found = object_page("/sources", sources("Web shop", "App", "ÜBER"), "über", "")
    assert ([each.object.name for each in found.rows], found.matching) == (["ÜBER"], 1)
    assert object_page("/sources", sources("x", "y"), " S001 ", "").rows[0].object.name == "y"
