"""``hookline send``: one call to the collection API, as an SDK would make it."""

from __future__ import annotations

import json
import uuid
from base64 import b64encode
from typing import Any

from hookline.cli.admin_api import CommandFailed, exchange
from hookline.cli.target import Target

Fields = dict[str, Any]


def send(target: Target, kind: str, fields: Fields, write_key: str | None, endpoint: str | None) -> Fields:
    """Send the call and return the collection API's answer; raise CommandFailed when it was refused."""
    url = (endpoint or target.collect_url()).rstrip("/")
    key = write_key or _first_write_key(target)
    body = {name: value for name, value in fields.items() if value not in (None, {})}
    body.setdefault("messageId", str(uuid.uuid4()))
    headers = {
        "Authorization": "Basic " + b64encode(f"{key}:".encode()).decode(),
        "Content-Type": "application/json",
    }
    status, _, data = exchange(f"{url}/v1/{kind}", "POST", json.dumps(body).encode(), headers)
    try:
        answer = json.loads(data)
    except ValueError:
        raise CommandFailed(f"{url} is not a Hookline collection API (status {status})") from None
    if status != 200:
        raise CommandFailed(f"the event was rejected ({answer.get('code', status)}): {answer.get('message', '')}")
    return {"messageId": body["messageId"], **answer}


def parse_values(option: str, given: list[str]) -> Fields:
    """``key=value`` pairs (a value may be JSON, else it is text) or whole JSON objects, later ones win."""
    values: Fields = {}
    for text in given:
        if text.lstrip().startswith("{"):
            try:
                values.update(json.loads(text))
            except ValueError as error:
                raise CommandFailed(f"{option}: not a JSON object: {error}", exit_code=2) from None
            continue
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandFailed(f"{option}: write key=value or a JSON object, not {text!r}", exit_code=2)
        values[name] = _json_or_text(value)
    return values


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _first_write_key(target: Target) -> str:
    for source in target.admin().sources():
        if source["enabled"] and source["writeKeys"]:
            return str(source["writeKeys"][0])
    raise CommandFailed("there is no enabled source with a write key; create one, or give --write-key")
