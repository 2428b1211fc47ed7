"""Code to paste into a receiver: each function takes what Hookline signs and nothing else, in its own language."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hookline.connections.model import SecretSetting, StandardWebhooks, Webhook, WebhookSettings
from hookline.events.signature import Signer, StandardSigner, new_standard_secret
from hookline.features.setup.verification import WAYS, verifications_of

BODY = '{"event":"Größe","n":1}'.encode()
SECRETS = {"sharedSecret": "s3cret with ünïcode", "standardWebhooks": new_standard_secret()}

LANGUAGES = ["python", *(each for each in ("node", "go", "php") if shutil.which(each))]
"""Those on this machine; what the tests need has Python and Node.js at least."""

# Each reads a list of {headers, body} and prints a list of verdicts.
NODE = """
import { readFileSync } from "node:fs";
const cases = JSON.parse(readFileSync(0, "utf8"));
const lower = (headers) => Object.fromEntries(Object.entries(headers).map(([k, v]) => [k.toLowerCase(), v]));
console.log(JSON.stringify(cases.map((each) => isGenuine(Buffer.from(each.body), lower(each.headers)))));
"""
PYTHON = """
import json, sys
print(json.dumps([is_genuine(each["body"].encode(), each["headers"]) for each in json.load(sys.stdin)]))
"""
PHP = """
$verdicts = [];
foreach (json_decode(stream_get_contents(STDIN), true) as $case) {
    $_SERVER = [];
    foreach ($case['headers'] as $name => $value) {
        $_SERVER['HTTP_' . strtoupper(str_replace('-', '_', $name))] = $value;
    }
    $verdicts[] = isGenuine($case['body']);
}
echo json_encode($verdicts);
"""
GO = """
type one struct { Headers map[string]string; Body string }

func main() {
	var cases []one
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil { panic(err) }
	verdicts := []bool{}
	for _, each := range cases {
		header := func(name string) string { return each.Headers[name] }
		verdicts = append(verdicts, isGenuine([]byte(each.Body), header))
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil { panic(err) }
}
"""


def signed(setting: SecretSetting, secret: str, body: bytes, at_seconds: int) -> dict[str, str]:
    """The headers of a request, as deliver makes them."""
    if setting == "sharedSecret":
        return {"X-Signature": Signer(secret).hex(body).decode()}
    signature = StandardSigner(secret).sign(b"m-1", at_seconds, body).decode()
    return {"webhook-id": "m-1", "webhook-timestamp": str(at_seconds), "webhook-signature": signature}


def cases_of(setting: SecretSetting) -> tuple[list[dict[str, Any]], list[bool]]:
    """Requests and whether each is genuine: good, changed, unsigned, of another secret, rotating, and an old one."""
    secret, now = SECRETS[setting], int(time.time())
    good = signed(setting, secret, BODY, now)
    other = signed(setting, new_standard_secret(), BODY, now)
    header = WAYS[setting].header
    rotating = (
        {**other, "X-Signature-Next": good[header]}
        if setting == "sharedSecret"
        else {**good, header: f"{other[header]} {good[header]}"}
    )
    requests = [(good, BODY), (good, BODY + b" "), ({}, BODY), (other, BODY), (rotating, BODY), ({header: "é"}, BODY)]
    verdicts = [True, False, False, False, True, False]
    if setting == "standardWebhooks":
        requests.append((signed(setting, secret, BODY, now - 3600), BODY))
        verdicts.append(False)
    return [{"headers": headers, "body": body.decode()} for headers, body in requests], verdicts


def command_of(language: str, text: str, folder: Path) -> list[str]:
    """What runs the pasted function with the cases of standard input."""
    endings = {"node": ".mjs", "python": ".py", "go": ".go", "php": ".php"}
    program = {
        "node": f"{text}\n{NODE}",
        "python": f"{text}\n{PYTHON}",
        "php": f"<?php\n{text}\n{PHP}",
        "go": "package main\n\n" + text.replace("import (", 'import (\n\t"encoding/json"', 1) + GO,
    }[language]
    path = folder / f"receiver{endings[language]}"
    path.write_text(program)
    return {
        "node": ["node", str(path)],
        "python": [sys.executable, str(path)],
        "php": ["php", str(path)],
        "go": ["go", "run", str(path)],
    }[language]


@pytest.mark.parametrize("setting", list(WAYS))
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_function_takes_exactly_what_is_genuine(setting: SecretSetting, language: str, tmp_path: Path) -> None:
    """Pasted and run, it tells our requests from changed, unsigned, foreign and old ones."""
    text = next(each.text for each in WAYS[setting].snippets if each.id == language)
    cases, verdicts = cases_of(setting)
    done = subprocess.run(
        command_of(language, text, tmp_path),
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "SECRET": SECRETS[setting], "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == verdicts


def test_only_the_ways_a_destination_signs_in() -> None:
    """An unsigned destination has none, one that signs twice has both."""
    webhooks = (Webhook(url="https://a.example/"),)
    assert verifications_of(WebhookSettings(webhooks=webhooks)) == []
    standard = StandardWebhooks(secret=SECRETS["standardWebhooks"])
    both = WebhookSettings(webhooks=webhooks, shared_secret="x", standard_webhooks=standard)
    assert [each.header for each in verifications_of(both)] == ["X-Signature", "webhook-signature"]
