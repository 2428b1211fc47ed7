"""``hookline simulate``, ``doctor``, ``renew``, ``bench`` and ``migrate-to``: the installation as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from hookline.cli.app import HERE, SERVICE, Flag, Json, app
from hookline.cli.target import Options, Target


@app.command(group=SERVICE)
def simulate(
    *,
    rate: str = "200/s",
    outage: str = "2h",
    after: str = "10m",
    receiver_latency: str = "50ms",
    status: str = "503",
    retry_after: str | None = None,
    event_size: str = "1KB",
    destination: str | None = None,
    connections: Path | None = None,
    config: Path | None = None,
    seed: int = 1,
    as_json: Json = False,
) -> int:
    """Simulate an outage of a receiver: attempts, backlog, recovery, losses. Needs no server.

    Parameters
    ----------
    rate
        Events for the destination, such as 200/s or 50/m.
    outage
        How long the receiver is down.
    after
        How long it works before that.
    receiver_latency
        How long it takes to answer.
    status
        What happens during the outage: an HTTP status, or timeout, refused, dns, tls.
    retry_after
        Retry-After that it sends during the outage.
    event_size
        Size of a stored event, for retention.bytes.
    destination
        Use the settings of this destination of the connections file.
    connections
        Connections file (default: ./connections.yaml).
    config
        Settings file (default: ./hookline.yaml if it exists).
    seed
        Seed of the random waits.
    as_json
        Print the report as JSON.
    """
    from hookline.cli.service.simulate import simulate_outage

    return simulate_outage(
        destination=destination,
        connections=connections,
        config=config,
        rate=rate,
        outage=outage,
        after=after,
        latency=receiver_latency,
        status=status,
        retry_after=retry_after,
        event_size=event_size,
        seed=seed,
        as_json=as_json,
    )


@app.command(group=SERVICE)
def doctor(*, options: Options = HERE) -> int:
    """Check this installation and say what to do about each problem, whether it runs or not."""
    from hookline.cli.service.doctor import doctor as examine

    return examine(options, options.as_json)


@app.command(group=SERVICE)
def renew(part: str, /, *, yes: Flag = False, server: Target = HERE) -> int:
    """Replace a missing part of the data folder with an empty one, so that Hookline starts again.

    Parameters
    ----------
    part
        control.db, deliver.db, privacy.db, privacy-key or profiles.db, also if the databases are in PostgreSQL.
    yes
        Do it. Without --yes, only the consequences are printed.
    """
    from hookline.cli.service.renew import renew as let_go

    return let_go(server, part, yes)


@app.command(group=SERVICE)
def bench(
    scenario: Literal["collect", "deliver", "e2e", "idle", "backlog", "all"] = "all",
    /,
    *,
    seconds: float | None = None,
    repeat: int = 1,
    events: int | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Measure Hookline on this machine, with a service in a temporary folder.

    Parameters
    ----------
    scenario
        What to measure.
    seconds
        Length of each measurement (default: 5).
    repeat
        Repeats of each measurement; the median counts.
    events
        How many events wait in the backlog (default: 1,000,000).
    json_file
        Write the figures to this file.
    """
    from hookline.bench.machine import leave_on_sigterm
    from hookline.bench.run import SECONDS, run_bench

    leave_on_sigterm()
    return run_bench(scenario, seconds=seconds or SECONDS, repeat=repeat, events=events, json_file=json_file)


@app.command(group=SERVICE)
def migrate_to(
    settings: Path,
    /,
    *,
    prepare: Flag = False,
    back: Flag = False,
    leave_events: Flag = False,
    options: Options = HERE,
) -> int:
    """Move a data folder to Kafka and PostgreSQL. The service stops only for the last seconds.

    Parameters
    ----------
    settings
        Settings file to move to, with journal.url, database.url and its own data_dir.
    prepare
        Copy what can be copied while the service runs, then stop. Run again without it to finish.
    back
        Go back to the old data folder.
    leave_events
        With --back: leave behind the events stored since the move.
    """
    from hookline.cli.service.migrate_to import go_back, move

    if back:
        return go_back(options, settings, leave_events, options.as_json)
    return move(options, settings, prepare, options.as_json)
