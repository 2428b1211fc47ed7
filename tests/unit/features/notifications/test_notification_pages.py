"""What the pages of notifications say, without a browser."""

from __future__ import annotations

from tests.unit.control.running import Running
from tests.unit.features.accounts.test_access import sign_in


def test_a_share_of_ones_own_reads_as_the_others(control: Running) -> None:
    """The API takes any; in the form it stands among the usual ones."""
    rule = {"id": "ops", "name": "Ops", "when": ["destination_failing"], "to": [{"email": ["a@example.com"]}]}
    answer = control.api("PUT", "/notifications/ops", {**rule, "threshold": {"failedShare": 0.15}})
    assert answer.status == 201, answer.json
    text = control.call("GET", "/settings/notifications/ops/edit", headers=sign_in(control), token=False).text
    assert '<option value="0.15" selected>15 %</option>' in text
