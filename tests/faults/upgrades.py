"""What a rolling upgrade does to the roles of the older version: another one's tables, of which they know nothing."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import get_args

from hookline.bench.machine import wait_until
from hookline.database.location import Which
from hookline.database.migrate import HEADS
from tests.faults.stage import Stage
from tests.kafka.worker import Worker

STANDS_BY_SECONDS_MAX = 60.0


def newer_schema(stage: Stage, times: int) -> None:
    """A newer version brings one schema after another further; a worker and a control that are started beside it stand
    by, or go on, until it is as before."""
    query = "SELECT 1 FROM pg_namespace WHERE nspname = 'hookline_{}'"
    made = [each for each in get_args(Which) if stage.server.admin(query.format(each))]  # nobody keeps people here
    for which in stage.in_turn(made, times):
        stage.inject(f"{which} of a newer version")
        _set(stage, which, "ALTER TABLE alembic_version ADD COLUMN more TEXT", 99)
        worker, machine = stage.workers[0], stage.machines[0]
        before = _times_standing_by(worker)
        worker.end(signal.SIGKILL)
        worker.start()
        os.kill(machine.role("control"), signal.SIGKILL)
        if which == "deliver":
            wait_until(partial(_said, worker, before), STANDS_BY_SECONDS_MAX, "the worker stands by")
        stage.wait_until_level()
        _set(stage, which, "ALTER TABLE alembic_version DROP COLUMN more", HEADS[which])
        stage.wait_for_owners()
        stage.wait_until_level()


UPGRADES = (("newer-schema", "roles beside a schema of a newer version", 10, newer_schema),)


def _times_standing_by(worker: Worker) -> int:
    return worker.log.read_text().count("standing_by")


def _said(worker: Worker, before: int) -> bool:
    return _times_standing_by(worker) > before


def _set(stage: Stage, which: Which, statement: str, number: int) -> None:
    url = stage.server.url("postgres")
    stage.server.run(url, statement.replace("alembic_version", f"hookline_{which}.alembic_version"))
    stage.server.run(url, f"UPDATE hookline_{which}.alembic_version SET version_num = '{which}_{number:04}'")
