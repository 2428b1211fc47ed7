"""The Go that tests the Go client library: the machine's, or the one that scripts/go.sh brought."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "clients/go"
OLDEST = (1, 22)


@cache
def go_program() -> Path | None:
    """Return a go that is new enough, None where there is none."""
    for found in (shutil.which("go"), shutil.which(ROOT / "build/go/bin/go")):
        if found is not None and _version(found) >= OLDEST:
            return Path(found).resolve()
    return None


def environment() -> dict[str, str]:
    """Return the environment without what somebody set for other work; nothing is downloaded."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GO", "HOOKLINE_", "DEBUG"))}
    kept = {name: os.environ[name] for name in ("GOCACHE", "GOMODCACHE", "GOPATH") if name in os.environ}
    ours = {"GOFLAGS": "", "GOENV": "off", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return {**inherited, **kept, **ours}


def run(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run go, gofmt, which lies beside it, or the program at a path in the library's folder, with more variables."""
    go = go_program()
    assert go is not None
    program = go.parent / command[0]
    return subprocess.run(
        [program, *command[1:]],
        cwd=LIBRARY,
        env={**environment(), **more},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "env", "GOVERSION"], env=environment(), capture_output=True, text=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))
