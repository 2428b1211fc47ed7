"""The database goes back in time under load: what it had confirmed last is gone, and the service goes on from there."""

from __future__ import annotations

import contextlib
import shutil
import signal

from tests.faults.stage import Stage

BEHIND_SECONDS = 3.0
"""What a standby that takes over does not have."""
NOTICED_SECONDS = 5.0
"""By then who has anything to write has tried to."""
BREATHING_SECONDS = 1.0


def replica_behind(stage: Stage, times: int) -> None:
    """A standby that has been cut off for some seconds takes over at the address of the primary."""
    for _ in stage.in_turn([stage.server], times):
        with contextlib.ExitStack() as stack:
            standby = stage.server.replica()
            stack.callback(standby.remove)
            standby.stand_still()
            stage.go_on_for(BEHIND_SECONDS)
            stage.inject(f"a standby {BEHIND_SECONDS:g} s behind takes over")
            stage.server.stop(signal.SIGQUIT)
            standby.promote()
            standby.stop()
            shutil.rmtree(stage.server.folder / "data")
            (standby.folder / "data").rename(stage.server.folder / "data")
            stage.server.start()
        _start_again(stage)


def crashes_that_forget(stage: Stage, times: int) -> None:
    """The server confirms by default what it writes seconds later, and crashes."""
    stage.server.admin("ALTER SYSTEM SET synchronous_commit = off")
    stage.server.admin("ALTER SYSTEM SET wal_writer_delay = '10s'")
    stage.server.admin("SELECT pg_reload_conf()")
    for _ in stage.in_turn([stage.server], times):
        stage.inject("PostgreSQL crashes and forgets")
        stage.server.stop(signal.SIGQUIT)
        stage.server.start()
        _start_again(stage)


def _start_again(stage: Stage) -> None:
    """Go on, and start workers that have ended to take up from the database, as a supervisor would."""
    stage.go_on_for(NOTICED_SECONDS)
    for worker in stage.workers:
        if worker.process.poll() is not None:
            worker.start()
    stage.wait_until_level()
    stage.go_on_for(BREATHING_SECONDS)
