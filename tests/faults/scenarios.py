"""What is done to the brokers, the workers, the network and the database; every scenario by itself, under load.

Each waits after an injection until everything goes through again, for as long as the stage has patience, but for the
storm, which gives no time.
"""

from __future__ import annotations

import os
import signal
import time

from hookline.bench.machine import wait_until
from tests.faults.embedded import EMBEDDED
from tests.faults.folder import folders_copied
from tests.faults.going_back import BEHIND_SECONDS, crashes_that_forget, replica_behind
from tests.faults.load import Scenario
from tests.faults.network import Network
from tests.faults.pooler import pooler_restarted
from tests.faults.stage import PARTITIONS, Stage
from tests.faults.surroundings import log_reader
from tests.faults.trouble import TROUBLES
from tests.faults.upgrades import UPGRADES

CUT_SECONDS = 10.0
"""How long a broker is cut off: brokers take it for gone after two."""
STILL_BEYOND_SECONDS = 3.0
"""How much longer than the session timeout a worker stands still."""
STORM_SECONDS = 5.0
STORM_WORKERS_MAX = 3
TAKEN_SECONDS_MAX = 60.0
MORE_PARTITIONS = 2


def brokers_killed(stage: Stage, times: int) -> None:
    """kill -9 of one broker after another; it is started again once all goes through without it."""
    for broker in stage.in_turn(stage.cluster.brokers, times):
        stage.inject(f"broker {broker.number} killed")
        broker.kill()
        stage.cluster.wait_for(len(stage.cluster.brokers) - 1)
        stage.wait_until_level()
        stage.cluster.start()
        stage.go_on()


def brokers_restarted(stage: Stage, times: int) -> None:
    """SIGTERM of one broker after another, each started again at once, as in a rolling upgrade."""
    for broker in stage.in_turn(stage.cluster.brokers, times):
        stage.inject(f"broker {broker.number} restarted")
        broker.stop()
        stage.cluster.start()
        stage.go_on()


def broker_cut_off(stage: Stage, times: int) -> None:
    """The cable of one broker is pulled for longer than its session with the others."""
    network = Network()
    for _ in stage.in_turn([network], times):
        stage.inject("broker 3 cut off")
        network.pull()
        time.sleep(CUT_SECONDS)
        network.plug()
        stage.cluster.wait_for(len(stage.cluster.brokers))
        stage.cluster.lead_as_preferred()
        stage.go_on()


def workers_killed(stage: Stage, times: int) -> None:
    """kill -9 of one worker after another, started again at once as by a supervisor."""
    for worker in stage.in_turn(stage.workers, times):
        pid = worker.pid
        stage.inject("worker killed")
        worker.end(signal.SIGKILL)
        worker.start()
        _wait_until_gone(stage, pid)
        stage.wait_until_level()
        stage.wait_for_owners()


def workers_stopped(stage: Stage, times: int) -> None:
    """SIGSTOP of one worker after another for longer than the session timeout, then SIGCONT."""
    for worker in stage.in_turn(stage.workers, times):
        stage.inject("worker stands still")
        os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(stage.session_seconds + STILL_BEYOND_SECONDS)
        _wait_until_gone(stage, worker.pid)
        os.kill(worker.pid, signal.SIGCONT)
        stage.wait_until_level()
        stage.wait_for_owners()


def collects_killed(stage: Stage, times: int) -> None:
    """kill -9 of the collect of one machine after the other, which its supervisor starts again."""
    for machine in stage.in_turn(stage.machines, times):
        pid = machine.role("collect")
        stage.inject("collect killed")
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda machine=machine, pid=pid: machine.role("collect", required=False) not in (0, pid),  # type: ignore[misc]
            TAKEN_SECONDS_MAX,
            "collect is started again",
        )
        stage.wait_until_collecting(machine)
        stage.go_on()


def storm(stage: Stage, times: int) -> None:
    """A worker joins or leaves (SIGTERM) every five seconds, whether or not the partitions have settled."""
    joined = []
    due = time.monotonic()
    for join in stage.in_turn([True] * STORM_WORKERS_MAX + [False] * STORM_WORKERS_MAX, times):
        time.sleep(max(0.0, due - time.monotonic()))
        due += STORM_SECONDS
        if join:
            stage.inject("a worker joins")
            joined.append(stage.add_worker())
        else:
            stage.inject("a worker leaves")
            joined.pop(0).process.terminate()
    stage.wait_until_level()


def postgres_restarted(stage: Stage, times: int) -> None:
    """PostgreSQL is restarted, by turns fast (sessions are ended first) and immediate (as a crash)."""
    for how in stage.in_turn([signal.SIGINT, signal.SIGQUIT], times):
        stage.inject("PostgreSQL, fast" if how == signal.SIGINT else "PostgreSQL, immediate")
        stage.server.stop(how)
        stage.server.start()
        stage.go_on()


def first_starts(stage: Stage, times: int) -> None:
    """Everything that was stored is taken away, topic, schemas and folders, and all machines and workers are started at
    once, as at the first start on brokers that make a topic at the first look for it."""
    for _ in stage.in_turn([stage.cluster], times):
        with stage.nothing_comes():
            stage.empty()
            stage.inject("first start")
            for machine in stage.machines:
                machine.launch()
            for worker in stage.workers:
                worker.start()
        stage.go_on()
        stage.wait_for_owners()
        copies = stage.cluster.copies(stage.topic)
        if copies != [len(stage.cluster.brokers)] * PARTITIONS:
            stage.failures.append(f"first start: copies of each partition are {copies}")


def partitions_raised(stage: Stage, times: int) -> None:
    """Two more partitions, and the machines restarted with them: by turns one after another, all at once, one alone."""
    first, second = stage.machines
    ways = [[[first], [second]], [[first, second]], [[first]]]
    for number, restarted in enumerate(stage.in_turn(ways, times), 1):
        stage.inject("partitions raised")
        for machines in restarted:
            for machine in machines:
                machine.stop()
                machine.settings["journal.partitions"] = PARTITIONS + MORE_PARTITIONS * number
            for machine in machines:
                machine.launch()
            for machine in machines:
                stage.wait_until_collecting(machine)
        stage.wait_until_level()
        stage.wait_for_owners()


SCENARIOS = (
    Scenario("brokers-killed", "broker killed (kill -9) and started again", 12, brokers_killed),
    Scenario("brokers-restarted", "rolling restart of the brokers", 9, brokers_restarted),
    Scenario("broker-cut-off", f"broker cut off for {CUT_SECONDS:g} s", 5, broker_cut_off, is_cut=True),
    Scenario("workers-killed", "worker killed (kill -9)", 10, workers_killed),
    Scenario("workers-stopped", "worker stands still (SIGSTOP) beyond its session", 5, workers_stopped),
    Scenario("collects-killed", "collect killed (kill -9)", 10, collects_killed),
    Scenario("storm", f"a worker joins or leaves every {STORM_SECONDS:g} s", 24, storm),
    Scenario("topics-on-demand", "first start on brokers that make topics on demand", 4, first_starts),
    Scenario("partitions-raised", "partitions added by restarts of one machine, or both", 9, partitions_raised),
    Scenario("folders-copied", "copied data folder started beside its original", 6, folders_copied),
    Scenario("log-reader", "the log's reader stands still, then is gone", 4, log_reader),
    Scenario(
        "postgres-restarted",
        "PostgreSQL restarted, fast and immediate by turns",
        20,
        postgres_restarted,
        refuses_none=True,
    ),
    *TROUBLES,
    Scenario(
        "pooler-restarted",
        "PgBouncer before PostgreSQL killed and ended",
        20,
        pooler_restarted,
        is_pooled=True,
        refuses_none=True,
    ),
    *(Scenario(*each, refuses_none=True) for each in UPGRADES),
    Scenario(
        "replica-behind", f"a PostgreSQL {BEHIND_SECONDS:g} s behind takes over", 5, replica_behind, refuses_none=True
    ),
    Scenario(
        "crashes-that-forget", "crash of a PostgreSQL that confirms early", 10, crashes_that_forget, refuses_none=True
    ),
    *EMBEDDED,
)


def _wait_until_gone(stage: Stage, pid: int) -> None:
    """Wait until all that a process owned is somebody else's."""
    wait_until(lambda: pid not in stage.owners().values(), TAKEN_SECONDS_MAX, "others own what it had")
