"""Dead letters as deliver wrote them down."""

from __future__ import annotations

from hookline.database.open import open_deliver
from tests.unit.control.running import Running


def fill(control: Running, count: int) -> None:
    """Write dead letters as deliver does, alternating between two destinations."""
    connection = open_deliver(control.data_path / "deliver.db")
    for number in range(count):
        connection.execute(
            'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, fate,'
            " attempts, at, outcome, status, error) VALUES (1, ?, 0, ?, ?, 'site', 'track', 'failed', 1, ?,"
            " 'rejected', 400, '<b>no</b>')",
            ("crm" if number % 2 else "erp", number, f"m{number}", 1_700_000_000_123 + number),
        )
    connection.close()


def test_before_deliver_ever_started_there_are_none(control: Running) -> None:
    """Without a database the list is empty."""
    assert control.api("GET", "/dead-letters").json == {"items": [], "after": None}


def test_newest_first_in_pages(control: Running) -> None:
    """Following `after` visits each once, newest first; one can be read by its id."""
    fill(control, 5)
    first = control.api("GET", "/dead-letters?limit=3").json
    rest = control.api("GET", f"/dead-letters?limit=3&after={first['after']}").json
    assert [each["messageId"] for each in first["items"] + rest["items"]] == ["m4", "m3", "m2", "m1", "m0"]
    assert rest["after"] is None
    one = control.api("GET", f"/dead-letters/{first['items'][0]['id']}").json
    assert one == first["items"][0]
    assert (one["at"], one["outcome"], one["status"]) == ("2023-11-14T22:13:20.127Z", "rejected", 400)


def test_of_one_destination(control: Running) -> None:
    """The filter leaves the other destination's out."""
    fill(control, 5)
    items = control.api("GET", "/dead-letters?destination=crm").json["items"]
    assert [each["messageId"] for each in items] == ["m3", "m1"]
