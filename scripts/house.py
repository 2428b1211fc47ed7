#!/usr/bin/env python3
"""Print how the house stands: sizes, crowded folders, import circles, and the files that one event runs through.

    python scripts/house.py            sizes and circles
    python scripts/house.py --check    the same; exit 1 where a bound below or a rule of the rooms does not hold
    python scripts/house.py --event    start a service, track one event, and list the files it runs through, in order

Imports inside functions and for type checkers alone count as any other: a circle that hides there is a circle.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "hookline"
SMALL_LINES = 40
FACES = ("api", "cli", "pages")
"""Modules of a feature that its model, service and store never import."""
TRACER = """
import json, os, signal, sys, threading
names, order, on = {}, [], []
def note(frame, event, argument):
    if on and event == "call":
        code = frame.f_code
        if "/hookline/" in code.co_filename and code not in names:
            names[code] = None
            order.append((code.co_filename, code.co_qualname if hasattr(code, "co_qualname") else code.co_name))
def switch(number, frame):
    if on:
        on.clear()
        with open(f"{os.environ['TRACED_INTO']}/{os.getpid()}.json.new", "w") as file: json.dump(order, file)
        os.rename(file.name, file.name[:-4])
        names.clear(); order.clear()
    else:
        on.append(True)
if {"collect", "deliver"} & set(sys.orig_argv):
    threading.setprofile(note); sys.setprofile(note); signal.signal(signal.SIGUSR2, switch)
"""
IDLE_SECONDS = 3.0


def modules() -> dict[str, Path]:
    """Return every module of the package by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(found: dict[str, Path]) -> dict[str, set[str]]:
    """Return what each module imports of the package, wherever in the file it does."""
    graph: dict[str, set[str]] = defaultdict(set)
    for name, path in found.items():
        for node in ast.walk(ast.parse(path.read_text())):
            wanted: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                # A package's face is only imported where a name is its own, not that of a module beside it.
                wanted = [each if each in found else node.module for each in inner]
            elif isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            graph[name].update(each for each in wanted if each in found and each != name)
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, directly or not, the largest first."""
    reached = {name: _reach(graph, name) for name in graph}
    left, found = set(graph), []
    while left:
        name = left.pop()
        circle = {other for other in reached[name] if name in reached.get(other, ())}
        if circle:
            found.append(sorted(circle | {name}))
            left -= circle
    return sorted(found, key=len, reverse=True)


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for each in graph.get(todo.pop(), ()):
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return seen


def faces_imported(graph: dict[str, set[str]]) -> list[str]:
    """Return where something of a feature, or of the pipeline, imports a feature's face."""
    wrong = []
    for name, wanted in graph.items():
        mine = name.split(".")
        if len(mine) > 3 and mine[1] == "features" and mine[3] in FACES:
            continue
        for each in wanted:
            parts = each.split(".")
            if len(parts) > 3 and parts[1] == "features" and parts[3] in FACES and mine[1] == "features":
                wrong.append(f"{name} imports {each}")
    return wrong


def sizes(found: dict[str, Path]) -> str:
    """Return the figures of size as text."""
    lines = {path: path.read_text().splitlines() for path in found.values()}
    all_of_it = sum(map(len, lines.values()))
    comments = sum(line.lstrip().startswith("#") for text in lines.values() for line in text)
    small = [path for path, text in lines.items() if len(text) < SMALL_LINES and path.name != "__init__.py"]
    folders = Counter(str(path.parent.relative_to(ROOT)) for path in lines if path.name != "__init__.py")
    crowded = "".join(f"\n  {count:4} files flat in {folder}" for folder, count in folders.most_common() if count > 18)
    return (
        f"{len(lines)} files, {all_of_it - comments:,} lines besides {comments:,} of comments, "
        f"{len(small)} files under {SMALL_LINES} lines{crowded}"
    )


class _Receiver(BaseHTTPRequestHandler):
    came: list[bytes] = []  # noqa: RUF012 (one receiver, one list)
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.came.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def event_files() -> Iterator[tuple[str, str]]:
    """Yield (role, file) in the order in which one tracked event first enters it, on a warm service."""
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    Thread(target=receiver.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(TRACER)
        (folder / "connections.yaml").write_text(
            json.dumps(
                {
                    "sources": [{"id": "web", "name": "Web", "type": "web", "writeKeys": ["key"]}],
                    "destinations": [
                        {
                            "id": "crm",
                            "name": "CRM",
                            "kind": "webhook",
                            "sources": ["web"],
                            "settings": {"webhooks": [{"url": f"http://127.0.0.1:{receiver.server_port}/"}]},
                        }
                    ],
                }
            )
        )
        environment = os.environ | {
            "PYTHONPATH": name,
            "TRACED_INTO": name,
            "HOOKLINE_DELIVER_ALLOW_NETWORKS": "127.0.0.0/8",
            "HOOKLINE_COLLECT_LISTEN": "127.0.0.1:18180",
            "HOOKLINE_CONTROL_LISTEN": "127.0.0.1:18181",
            "HOOKLINE_DATA_DIR": f"{name}/data",
        }
        command = [sys.executable, "-m", "hookline.cli.main", "up", "--connections", f"{name}/connections.yaml"]
        with subprocess.Popen(command, env=environment, start_new_session=True) as service:
            try:
                yield from _traced(folder, service.pid)
            finally:
                os.killpg(service.pid, signal.SIGTERM)
                receiver.shutdown()


def _traced(folder: Path, group: int) -> Iterator[tuple[str, str]]:
    for _ in range(20):
        _track()
    roles = _roles(group)
    idle = _window(folder, roles, is_idle=True)
    for role, called in _window(folder, roles, is_idle=False).items():
        seen = {tuple(each) for each in idle[role]}
        files = dict.fromkeys(path for path, function in called if (path, function) not in seen)
        yield from ((role, os.path.relpath(path, PACKAGE)) for path in files)


def _track() -> None:
    come = len(_Receiver.came)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            body = json.dumps({"writeKey": "key", "userId": "u1", "event": "Signed Up"}).encode()
            request = urllib.request.Request("http://127.0.0.1:18180/v1/track", body, {"Content-Type": "text/plain"})
            urllib.request.urlopen(request, timeout=5).read()
            break
        except OSError:
            time.sleep(0.1)
    while len(_Receiver.came) == come and time.monotonic() < deadline:
        time.sleep(0.01)


def _roles(group: int) -> dict[str, int]:
    table = subprocess.run(["ps", "-eo", "pid,pgid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in table.splitlines()[1:]]
    mine = {int(pid): args.split() for pid, pgid, args in rows if int(pgid) == group and "cli.main" in args}
    return {role: pid for role in ("collect", "deliver") for pid, args in mine.items() if role in args}


def _window(folder: Path, roles: dict[str, int], *, is_idle: bool) -> dict[str, list[list[str]]]:
    time.sleep(1.0)
    for pid in roles.values():
        os.kill(pid, signal.SIGUSR2)
    time.sleep(0.3)
    if not is_idle:
        _track()
    time.sleep(IDLE_SECONDS if is_idle else 0.5)
    called = {}
    for role, pid in roles.items():
        os.kill(pid, signal.SIGUSR2)
        path = folder / f"{pid}.json"
        while not path.exists():
            time.sleep(0.05)
        called[role] = json.loads(path.read_text())
        path.unlink()
    return called


def main(arguments: list[str]) -> int:
    """Print what is asked for; return the exit code."""
    if "--event" in arguments:
        files = list(event_files())
        for role, path in files:
            print(f"{role:8} {path}")
        print(f"{len({path for _, path in files})} files")
        return 0
    found = modules()
    graph = imports(found)
    round_about, wrong = circles(graph), faces_imported(graph)
    print(sizes(found))
    for circle in round_about:
        print("circle:", " <-> ".join(circle))
    for each in wrong:
        print("face:", each)
    return int("--check" in arguments and bool(round_about or wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
