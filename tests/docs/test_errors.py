"""docs/reference/errors.md against the codes in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hookline.api.problem import CODES
from hookline.collect.http.answers import ERRORS
from hookline.connections.check import PROBLEM_CODES
from hookline.database.sqlite import DatabaseAway
from hookline.events.warnings import WARNINGS
from hookline.features.accounts.api import STATUS_OF_ACCOUNT_ERROR
from hookline.features.destinations.api import STATUS_OF_REFUSAL
from hookline.outcomes.outcome import FINAL, Outcome
from tests.docs.pages import ROOT, section

SOURCE = ROOT / "src" / "hookline"


def table(heading: str) -> dict[str, list[str]]:
    """The rows under a heading, by code."""
    lines = re.findall(r"^\| `(\w+)` \|(.*)\|$", section("reference/errors.md", heading), re.MULTILINE)
    return {code: [cell.strip() for cell in rest.split(" | ")] for code, rest in lines}


def error_classes() -> Iterator[str]:
    """The code of every exception class that has one: a class attribute named ``code`` holding text."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                for statement in node.body:
                    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "code":
                        yield ast.literal_eval(statement.value)


def raised_problems() -> dict[str, int]:
    """The codes of the problem documents that the admin API raises as ``Problem(status, "code", …)``."""
    found: dict[str, int] = {}
    for path in (path for room in ("api", "features") for path in (SOURCE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Problem" and len(node.args) > 1:
                status, code = node.args[0], node.args[1]
                if isinstance(status, ast.Constant) and isinstance(code, ast.Constant):
                    found[code.value] = status.value
    return found


def test_collection_errors_are_documented_as_they_are_answered() -> None:
    """The table has exactly the collection API's codes, each with its status and sentence."""
    assert table("Collection API") == {code: [str(status), text] for code, (status, text) in ERRORS.items()}


def test_warnings_are_documented_as_they_are_answered() -> None:
    """The table has exactly the warnings, each with its sentence."""
    assert table("Warnings") == {code: [text] for code, text in WARNINGS.items()}


def test_admin_errors_are_documented() -> None:
    """Every code that the admin API answers is in its table, with its status."""
    documented = {code: cells[0] for code, cells in table("Admin API").items()}
    answered = {code: str(status) for status, (code, _) in CODES.items()}
    answered |= {
        code: str(status)
        for code, status in {**raised_problems(), **STATUS_OF_REFUSAL, **STATUS_OF_ACCOUNT_ERROR}.items()
    }
    assert answered.items() <= documented.items()
    # Raised by the store, or by a database that cannot be used now: answered under its code.
    raised = {"version_conflict", DatabaseAway.code, *(kind.code for kind in DatabaseAway.__subclasses__())}
    assert documented.keys() - answered.keys() <= raised


def test_connection_problems_are_documented() -> None:
    """The table has exactly the problems that a file or an object can have."""
    assert list(table("Connections")) == list(PROBLEM_CODES)


def test_error_classes_are_documented() -> None:
    """The code of every error class stands in one of the tables."""
    headings = ("Collection API", "Admin API", "Starting and running", "Outcomes of attempts")
    codes = set(error_classes())
    assert len(codes) > 20
    assert codes - {code for heading in headings for code in table(heading)} == set()


def test_outcomes_are_documented_with_whether_they_are_retried() -> None:
    """The table has exactly the outcomes, and says of each rightly whether it is tried again."""
    retried = {code: cells[0] for code, cells in table("Outcomes of attempts").items()}
    expected = {str(outcome): "no" if outcome in FINAL else "yes" for outcome in Outcome}
    assert retried == expected | {"success": ""}
