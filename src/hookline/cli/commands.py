"""The commands around a running service, as cyclopts sees them: names, options and help.

What they do is in the module named after each. ``up`` and the roles appear here for the help only; ``main``
dispatches them before this module is imported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter, validators

from hookline import __version__
from hookline.cli.failure import CommandFailed
from hookline.cli.letter_commands import letters_app
from hookline.cli.options import SUMMARIES
from hookline.cli.replay_commands import replay_app
from hookline.cli.target import Target

USAGE = 2

HERE = Target()

app = App(
    name="hookline",
    help="Self-hosted event forwarding: Segment-compatible calls in, signed webhooks out.",
    version=__version__,
    help_epilogue="Exit codes: 0 done, 1 failed, 2 wrong usage. Every command: docs/cli.md.",
)

SERVICE = "Service"
CONNECTIONS = "Connections as a file"
DELIVERY = "Delivery"
EVENTS = "Events"

Json = Annotated[bool, Parameter(name="--json", negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Pairs = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]
Repeated = Annotated[list[str] | None, Parameter(negative="")]
MessageType = Literal["identify", "track", "page", "screen", "group", "alias"]


def execute(arguments: list[str]) -> int:
    """Run the command and return its exit code; failures are one sentence on standard error."""
    try:
        code = app(arguments or ["--help"], exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return USAGE
    except CommandFailed as failure:
        print(f"hookline: {failure}", file=sys.stderr)
        return failure.exit_code
    return code if isinstance(code, int) else 0


def _service_command(name: str) -> None:
    def started_by_main() -> None:
        raise AssertionError(f"{name} is dispatched by hookline.cli.main")

    started_by_main.__doc__ = SUMMARIES[name] + f" Options: hookline {name} --help."
    app.command(started_by_main, name=name, group=SERVICE)


for _name in SUMMARIES:
    _service_command(_name)


@app.command(group=CONNECTIONS)
def check(file: Path, /, *, as_json: Json = False, server: Target = HERE) -> int:
    """Check a connections file without a server, and try its filters on recent events where there are any.

    Parameters
    ----------
    file
        Connections file, such as connections.yaml.
    as_json
        Print the problems as JSON.
    """
    from hookline.cli.connections import check_file

    return check_file(file, server.settings(), as_json)


@app.command(group=CONNECTIONS)
def diff(file: Path, /, *, prune: Flag = False, as_json: Json = False, server: Target = HERE) -> int:
    """Show what apply would change.

    Parameters
    ----------
    file
        Connections file.
    prune
        Show also what apply --prune would delete.
    as_json
        Print the changes as JSON.
    """
    from hookline.cli.connections import apply_file

    return apply_file(server.admin(), file, prune=prune, dry_run=True, as_json=as_json)


@app.command(group=CONNECTIONS)
def apply(
    file: Path, /, *, prune: Flag = False, dry_run: Flag = False, as_json: Json = False, server: Target = HERE
) -> int:
    """Make the server's connections those of a file; objects made elsewhere stay untouched.

    Parameters
    ----------
    file
        Connections file.
    prune
        Delete what an earlier version of the file made and this one no longer has.
    dry_run
        Change nothing, only say what would change.
    as_json
        Print the changes as JSON.
    """
    from hookline.cli.connections import apply_file

    return apply_file(server.admin(), file, prune=prune, dry_run=dry_run, as_json=as_json)


@app.command(group=CONNECTIONS)
def export(*, server: Target = HERE) -> int:
    """Print the server's connections as a file; stored secrets are written as keep."""
    print(server.admin().get("/connections/export"), end="")
    return 0


@app.command(group=DELIVERY)
def pause(destination: str, /, *, reason: str = "", as_json: Json = False, server: Target = HERE) -> int:
    """Park a destination's events until it is resumed; nothing is lost.

    Parameters
    ----------
    destination
        Id of the destination.
    reason
        Shown to whoever wonders.
    as_json
        Print how the destination stands as JSON.
    """
    from hookline.cli.pausing import pause_destination

    return pause_destination(server.admin(), destination, reason, as_json)


@app.command(group=DELIVERY)
def disable(
    destination: str,
    /,
    *,
    waiting: Literal["drain", "discard"] | None = None,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Disable a destination; when events wait for it, you say what becomes of them.

    Parameters
    ----------
    destination
        Id of the destination.
    waiting
        drain still sends what was accepted before, discard does not.
    as_json
        Print how the destination stands as JSON.
    """
    from hookline.cli.pausing import disable_destination

    return disable_destination(server.admin(), destination, waiting, as_json)


@app.command(group=DELIVERY)
def resume(destination: str, /, *, rate: float | None = None, as_json: Json = False, server: Target = HERE) -> int:
    """Send what a paused destination has missed, and what comes from now on.

    Parameters
    ----------
    destination
        Id of the destination.
    rate
        Events per second while it catches up (default: as many as the receiver takes).
    as_json
        Print how the destination stands as JSON.
    """
    from hookline.cli.pausing import resume_destination

    return resume_destination(server.admin(), destination, rate, as_json)


app.command(replay_app)
app.command(letters_app)


@app.command(group=DELIVERY)
def secrets(
    action: Literal["rotate", "end"],
    destination: str,
    /,
    *,
    overlap: str | None = None,
    secret: str | None = None,
    setting: Literal["sharedSecret", "standardWebhooks"] | None = None,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Rotate the secret a destination signs with, or end the overlap in which the old one is good too.

    Parameters
    ----------
    action
        rotate or end.
    destination
        Id of the destination.
    overlap
        How long requests carry the signatures of both secrets (rotate; default: 24h).
    secret
        The new secret or a reference to it (rotate; default: one is made and shown once).
    setting
        Which secret, where the destination has two.
    as_json
        Print the answer as JSON.
    """
    from hookline.cli.secret_rotation import end_overlap, rotate_secret

    if action == "rotate":
        return rotate_secret(
            server.admin(), destination, overlap=overlap or "24h", secret=secret, setting=setting, as_json=as_json
        )
    if overlap is not None or secret is not None:
        raise CommandFailed("secrets end takes neither --overlap nor --secret", exit_code=USAGE)
    return end_overlap(server.admin(), destination, setting=setting, as_json=as_json)


@app.command(group=EVENTS)
def listen(
    *,
    port: int = 8090,
    secret: Repeated = None,
    standard_webhooks: Flag = False,
    status: int = 200,
    source: str | None = None,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Receive events on this machine: verify, print, and leave again at the end.

    Parameters
    ----------
    port
        Port of the receiver; 0 takes any free one.
    secret
        Secret to configure and verify with (default: a new shared secret); one that begins with whsec_ is for
        Standard Webhooks. Given more than once, all are good and the first of its kind is configured.
    standard_webhooks
        Ask for Standard Webhooks too, with a new secret unless one is given.
    status
        Status to answer, to see retries.
    source
        Listen to this source only (default: all).
    as_json
        Print one JSON object per request.
    """
    from hookline.cli.listening import listen_until_told

    return listen_until_told(
        server,
        port=port,
        secrets=secret or [],
        standard_webhooks=standard_webhooks,
        status=status,
        source=source,
        as_json=as_json,
    )


@app.command(group=EVENTS)
def send(
    type: MessageType,
    /,
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    event: str | None = None,
    name: str | None = None,
    category: str | None = None,
    group_id: str | None = None,
    previous_id: str | None = None,
    properties: Pairs = None,
    traits: Pairs = None,
    context: Pairs = None,
    integrations: Pairs = None,
    timestamp: str | None = None,
    message_id: str | None = None,
    write_key: str | None = None,
    endpoint: str | None = None,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Send one event, as an SDK would.

    Parameters
    ----------
    type
        Kind of call.
    user_id
        Who; made up as "someone" when neither this nor --anonymous-id is given.
    anonymous_id
        Who, before they are known.
    event
        Name of what happened (track).
    name
        Name of the page or screen.
    category
        Category of the page.
    group_id
        Which group (group).
    previous_id
        The earlier identity (alias).
    properties
        key=value pairs or a JSON object.
    traits
        key=value pairs or a JSON object.
    context
        key=value pairs or a JSON object.
    integrations
        Destination selection: All=false Webhooks=true.
    timestamp
        When it happened, ISO 8601 (default: now).
    message_id
        Id of the message; sending it twice delivers it once (default: a new one).
    write_key
        Write key of the source (default: that of the first source).
    endpoint
        Address of the collection API, such as http://127.0.0.1:8080.
    as_json
        Print the answer as JSON.
    """
    from hookline.cli.send import parse_values
    from hookline.cli.send import send as send_call

    fields: dict[str, Any] = {
        "userId": user_id or (None if anonymous_id else "someone"),
        "anonymousId": anonymous_id,
        "event": event,
        "name": name,
        "category": category,
        "groupId": group_id,
        "previousId": previous_id,
        "timestamp": timestamp,
        "messageId": message_id,
    }
    for option, given in {
        "properties": properties,
        "traits": traits,
        "context": context,
        "integrations": integrations,
    }.items():
        fields[option] = parse_values(f"--{option}", given or [])
    answer = send_call(server, type, fields, write_key, endpoint)
    if as_json:
        print(json.dumps(answer))
    else:
        print(f"accepted {answer['messageId']}\nwhat became of it: hookline why {answer['messageId']}")
    return 0


@app.command(group=EVENTS)
def why(message_id: str, /, *, source: str | None = None, as_json: Json = False, server: Target = HERE) -> int:
    """Show what became of an event: acceptance, each routing decision with its reason, each attempt.

    Parameters
    ----------
    message_id
        The event's messageId.
    source
        Source of the event, when several sent the same messageId.
    as_json
        Print the fate as JSON.
    """
    from hookline.cli.why import fate_of, lines

    fate = fate_of(server.admin(), message_id, source)
    print(json.dumps(fate, indent=2, ensure_ascii=False) if as_json else "\n".join(lines(fate)))
    return 0


@app.command(group=EVENTS)
def tail(
    *,
    source: str | None = None,
    type: MessageType | None = None,
    event: str | None = None,
    user: str | None = None,
    destination: str | None = None,
    fate: str | None = None,
    last: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=1_000))] = 10,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Follow the events: one line for each as it comes, and again when its fate changes. Ctrl-C ends it.

    Parameters
    ----------
    source
        Only this source (its id).
    type
        Only this kind of call.
    event
        Only this event, or pages and screens of this name.
    user
        Only this user.
    destination
        Only events routed to this destination (its id), with the fate they have there.
    fate
        Only events of this fate, such as delivered, retrying or failed.
    last
        Begin with so many of the last events.
    as_json
        Print one JSON object per line.
    """
    from hookline.cli.tail import TailFilter
    from hookline.cli.tail import tail as follow
    from hookline.cli.tail_lines import shower

    wanted = TailFilter(source=source, type=type, event=event, user=user, destination=destination, fate=fate)
    return follow(server.admin(), wanted, last, shower(wanted, as_json), every_change=as_json)


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
    """Live through a receiver's outage in simulated time: attempts, backlog, recovery, losses. Needs no server.

    Parameters
    ----------
    rate
        Events for the destination, such as 200/s or 50/m.
    outage
        How long the receiver is away.
    after
        How long it is well before.
    receiver_latency
        How long it takes to answer.
    status
        What it answers meanwhile: a status, or timeout, refused, dns, tls.
    retry_after
        Retry-After that it sends meanwhile.
    event_size
        Size of a stored event, for retention.bytes.
    destination
        Use the settings of this destination of the connections file.
    connections
        Connections file (default: ./connections.yaml).
    config
        Settings file (default: ./hookline.yaml where it exists).
    seed
        Another number, another set of random waits.
    as_json
        Print the report as JSON.
    """
    from hookline.cli.simulate import simulate_outage

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
def doctor(*, as_json: Json = False, server: Target = HERE) -> int:
    """Look for what is wrong with this installation, and say what to do; works whether it runs or not.

    Parameters
    ----------
    as_json
        Print settings and findings as JSON.
    """
    from hookline.cli.doctor import doctor as examine

    return examine(server, as_json)


@app.command(group=SERVICE)
def bench(
    scenario: Literal["collect", "deliver", "e2e", "idle", "backlog", "compare", "all", "isolation", "crash"] = "all",
    /,
    *,
    seconds: float | None = None,
    repeat: int = 1,
    rate: float | None = None,
    cycles: int = 20,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
    write: Path | None = None,
) -> int:
    """Measure a real service on this machine, started in a temporary folder on ports of its own.

    Parameters
    ----------
    scenario
        What to measure, or the report to make: ``isolation`` or ``crash``. compare installs Dramatiq, arq and Celery
        in a temporary folder and is not part of all.
    seconds
        Length of each measurement (default: 5; isolation 30; crash: how long the disk is full, 10).
    repeat
        Repeats of each measurement; the median counts.
    rate
        Events per second of a report (default: 1,000).
    cycles
        How often the crash report kills everything, and how often it cuts the power.
    json_file
        Write the figures to this file.
    write
        Write a report to this file as a page.
    """
    from hookline.bench.waiting import leave_on_sigterm

    leave_on_sigterm()
    if scenario == "isolation":
        from hookline.bench.isolation import report as isolation

        return isolation.run_isolation(
            seconds or isolation.SECONDS, rate or isolation.RATE_PER_SECOND, json_file, write
        )
    if scenario == "crash":
        from hookline.bench.crash import report as crash

        return crash.run_crash(cycles, seconds or crash.FULL_SECONDS, rate or crash.RATE_PER_SECOND, json_file, write)
    from hookline.bench.run import SECONDS, run_bench

    return run_bench(scenario, seconds=seconds or SECONDS, repeat=repeat, json_file=json_file)
