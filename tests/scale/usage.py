"""What processes and PostgreSQL have used up to now; the difference of two such looks is what happened between them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.postgres import PostgresServer

_TICKS = os.sysconf("SC_CLK_TCK")
_WRITES = "query ~* '^(BEGIN|COMMIT|INSERT|UPDATE|DELETE|COPY|SELECT pg_advisory)'"
_TOTALS = (
    "SELECT coalesce(sum(calls), 0), coalesce(sum(calls) FILTER (WHERE query ~* '^SELECT pg_advisory_xact_lock'), 0),"
    f" coalesce(sum(total_exec_time) FILTER (WHERE {_WRITES}), 0) / 1000,"
    " (SELECT sum(xact_commit) FROM pg_stat_database), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
    " FROM pg_stat_statements"
)


class Statements(msgspec.Struct, frozen=True):
    """What a PostgreSQL server was asked to do."""

    statements: int
    saves: int
    """Transactions that wrote."""
    save_seconds: float
    """How long their statements took, with their waits."""
    transactions: int
    wal_bytes: int

    def since(self, before: Statements) -> Statements:
        """What was added since an earlier look."""
        return Statements(
            self.statements - before.statements,
            self.saves - before.saves,
            self.save_seconds - before.save_seconds,
            self.transactions - before.transactions,
            self.wal_bytes - before.wal_bytes,
        )


def statements_of(server: PostgresServer) -> Statements:
    """The server's counts so far."""
    statements, saves, save_seconds, transactions, wal_bytes = server.admin(_TOTALS)[0]
    return Statements(int(statements), int(saves), float(save_seconds), int(transactions), int(wal_bytes))


def cpu_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    """Processor time so far of each process with all that it has started, ended or not."""
    times = _times()
    return {name: _with_children(pid, times) for name, pid in processes.items()}


def difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """What was added to each."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def _with_children(pid: int, times: Mapping[int, tuple[int, int, int]]) -> float:
    own = times[pid][1] + times[pid][2] if pid in times else 0
    below = (each for each, (parent, _, _) in times.items() if parent == pid)
    return own / _TICKS + sum(_with_children(each, times) for each in below)


def _times() -> dict[int, tuple[int, int, int]]:
    """By process: its parent, its own ticks, and those of its children that have ended."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        found[int(folder.name)] = (int(fields[1]), own, ended)
    return found
