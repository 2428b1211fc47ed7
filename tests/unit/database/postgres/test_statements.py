"""SQLite's statements as PostgreSQL takes them."""

from __future__ import annotations

import pytest

from hookline.database.postgres.dialect import translated


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT a FROM t WHERE b = ? AND c < ?", "SELECT a FROM t WHERE b = $1 AND c < $2"),
        ("UPDATE t SET a = ?2, b = ?1 WHERE c = ?2", "UPDATE t SET a = $2, b = $1 WHERE c = $2"),
        ("SELECT ?3, ?", "SELECT $3, $4"),
        ("SELECT '?', 'it''s ?', \"a?\", ?", "SELECT '?', 'it''s ?', \"a?\", $1"),
        ("SELECT a FROM t INDEXED BY t_a WHERE a = ?", "SELECT a FROM t  WHERE a = $1"),
        ("SELECT CAST(a || ? AS BLOB)", "SELECT CAST(a || $1 AS BYTEA)"),
        ("SELECT a FROM t WHERE a IN ()", "SELECT a FROM t WHERE a IN (NULL)"),
        ("SELECT 'INDEXED BY x AS BLOB'", "SELECT 'INDEXED BY x AS BLOB'"),
    ],
)
def test_marks_and_words(sql: str, text: str) -> None:
    """Values are numbered, and nothing inside quotes is touched."""
    assert translated(sql).text == text


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1", "read"),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "read"),
        ("BEGIN", "begin_read"),
        ("BEGIN IMMEDIATE", "begin_write"),
        ("COMMIT", "commit"),
        ("ROLLBACK", "rollback"),
        ("INSERT INTO t VALUES (?)", "write"),
        (" DELETE FROM t", "write"),
        ("UPDATE t SET a = 1", "write"),
    ],
)
def test_what_a_statement_does(sql: str, kind: str) -> None:
    """What is not known to read takes its turn as a writer does."""
    assert translated(sql).kind == kind
