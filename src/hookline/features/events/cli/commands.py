"""``hookline listen``, ``send``, ``why`` and ``tail``: events on their way."""

from __future__ import annotations

import json
from typing import Annotated, Any

from cyclopts import Parameter, validators

from hookline.cli.app import EVENTS, HERE, Flag, MessageType, Pairs, Repeated, Status, StoredType, app
from hookline.cli.target import Options


@app.command(group=EVENTS)
def listen(
    *,
    port: int = 8090,
    secret: Repeated = None,
    standard_webhooks: Flag = False,
    status: Annotated[int, Parameter(validator=validators.Number(gte=200, lte=599))] = 200,
    source: str | None = None,
    options: Options = HERE,
) -> int:
    """Start a receiver on this machine and print each event, until Ctrl-C.

    Parameters
    ----------
    port
        Port of the receiver; 0 takes any free one.
    secret
        Secret to verify with (default: a new one; whsec_… is for Standard Webhooks). Can be given several times.
    standard_webhooks
        Also use Standard Webhooks, with a new secret unless one is given.
    status
        HTTP status to answer with, such as 503 to see retries.
    source
        Listen to this source only (default: all, also those that are created later).
    """
    from hookline.features.events.cli.listen import listen_until_stopped

    return listen_until_stopped(
        options,
        port=port,
        secrets=secret or [],
        standard_webhooks=standard_webhooks,
        status=status,
        source=source,
        as_json=options.as_json,
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
    options: Options = HERE,
) -> int:
    """Send one event, as an SDK would.

    Parameters
    ----------
    type
        Kind of call.
    user_id
        The user (default: "someone", unless --anonymous-id is given).
    anonymous_id
        The visitor before they are identified.
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
        Id of the message (default: a new one). The same id sent twice is delivered once.
    write_key
        Write key of the source (default: that of the first enabled source).
    endpoint
        Address of the collection API, such as http://127.0.0.1:8080.
    """
    from hookline.features.events.cli.send import parse_values
    from hookline.features.events.cli.send import send as send_call

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
    answer = send_call(options, type, fields, write_key, endpoint)
    if options.as_json:
        print(json.dumps(answer))
    else:
        print(f"accepted {answer['messageId']}\nsee its status: hookline why {answer['messageId']}")
    return 0


@app.command(group=EVENTS)
def why(message_id: str, /, *, source: str | None = None, options: Options = HERE) -> int:
    """Show the status of an event: acceptance, each routing decision with its reason, each attempt.

    Parameters
    ----------
    message_id
        The event's messageId.
    source
        Source of the event, if several sources sent the same messageId.
    """
    from hookline.features.events.cli.tail import find, lines

    event = find(options.admin(), message_id, source)
    print(json.dumps(event, indent=2, ensure_ascii=False) if options.as_json else "\n".join(lines(event)))
    return 0


@app.command(group=EVENTS)
def tail(
    *,
    source: str | None = None,
    type: StoredType | None = None,
    event: str | None = None,
    user: Annotated[str | None, Parameter(name="--user-id")] = None,
    destination: str | None = None,
    status: Status = None,
    last: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=1_000))] = 10,
    options: Options = HERE,
) -> int:
    """Follow events live: one line when each arrives and when its status changes, until Ctrl-C.

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
        Only events routed to this destination (its id), with the status they have there.
    status
        Only events of this status, such as delivered, retrying or failed.
    last
        Start with this many of the latest events.
    """
    from hookline.features.events.cli.tail import TailFilter, shower
    from hookline.features.events.cli.tail import tail as follow

    wanted = TailFilter(source=source, type=type, event=event, user=user, destination=destination, status=status)
    show = shower(wanted, options.as_json, options.utc)
    return follow(options.admin(), wanted, last, show, every_change=options.as_json)
