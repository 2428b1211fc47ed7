"""Rules that hold for file and API alike."""

from __future__ import annotations

from hookline.connections import check
from hookline.connections.check import Problem, check_counts, check_destination
from hookline.connections.model import new_write_key
from tests.unit.connections.examples import destination


def test_each_webhook_is_judged_with_its_place() -> None:
    """Every URL, header list and reference is checked, and a problem says which one it is."""
    wrong = destination(url="https://user@x.example.com/", headers={"Host": "x", "X-Key": "env:HOME"}, secret="")
    assert [(problem.code, problem.path) for problem in check_destination("", wrong)] == [
        ("invalid_url", "settings.webhooks[0].url"),
        ("invalid_headers", "settings.webhooks[0].headers"),
        ("invalid_secret", "settings.webhooks[0].headers.X-Key"),
        ("invalid_secret", "settings.sharedSecret"),
    ]


def test_the_number_of_objects_is_bounded() -> None:
    """Each count has a limit of its own, and the last allowed one is allowed."""
    assert check_counts(check.COUNTS_MAX) == []
    over = check_counts({kind: most + 1 for kind, most in check.COUNTS_MAX.items()})
    paths = ["sources", "destinations", "audiences", "computedTraits", "notifications"]
    assert [(problem.code, problem.path) for problem in over] == [("too_many", path) for path in paths]


def test_a_problem_reads_as_a_line() -> None:
    """For the terminal a problem is one line: where, then what to do."""
    assert str(Problem("invalid_url", "destinations[0]", "write a URL", 7)) == "line 7, destinations[0]: write a URL"
    assert str(Problem("invalid_yaml", "", "write YAML")) == "write YAML"


def test_write_keys_cannot_be_guessed() -> None:
    """A made write key is long, random and allowed in a URL."""
    keys = {new_write_key() for _ in range(1_000)}
    assert len(keys) == 1_000
    assert all(key.startswith("wk_") and len(key) == 27 and key.replace("-", "_").isidentifier() for key in keys)
