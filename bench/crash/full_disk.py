"""A full disk: the data folder on a small tmpfs of its own that is filled for a while, and freed again.

The service runs in a mount namespace of its own (``unshare``), which needs no privileges where users may make
namespaces, and leaves nothing behind.
"""

from __future__ import annotations

import http.client
import shutil
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.crash.scene import ENOUGH_EVENTS, Scene, Score
from bench.crash.sender import WRITE_KEY
from hookline.bench.machine import wait_until

KIND = "disk full"
DISK_BYTES = 192 * 1024 * 1024
BLOCK_BYTES = 65_536
REFUSED_SECONDS = 60.0
BACK_SECONDS = 60.0
PADDING_BYTES = 2_000
BODY = b'{"userId":"u","event":"Full","properties":{"p":"%b"}}' % (b"x" * 30_000)
IN_NAMESPACE = ("unshare", "--mount", "--map-root-user")


def full_disk(seconds: float, rate: float) -> Score:
    """Fill the disk under load, leave it full, free it; only 503 meanwhile, and afterwards it works by itself."""
    if (
        shutil.which("unshare") is None
        or subprocess.run([*IN_NAMESPACE, "true"], check=False, capture_output=True).returncode
    ):
        return Score(kind=KIND, not_run="this machine lets nobody make a mount namespace (unshare --mount)")
    with TemporaryDirectory(prefix="hookline-bench-") as name:
        folder, disk = Path(name), Path(name) / "disk"
        disk.mkdir()
        mount = f'mount -t tmpfs -o size={DISK_BYTES} tmpfs "$0" && exec "$@"'
        within = (*IN_NAMESPACE, "sh", "-c", mount, str(disk))
        with Scene(rate, folder=folder, data=disk / "data", within=within, receivers=1) as scene:
            scene.service.start()
            scene.service.data = Path(f"/proc/{scene.service.processes()['supervisor']}/root{disk}/data")
            return _fill_and_free(scene, seconds)


def _fill_and_free(scene: Scene, seconds: float) -> Score:
    port, failures = scene.service.collect_port, []
    roles = scene.service.processes()
    scene.start_load(PADDING_BYTES)
    scene.ledger.more(ENOUGH_EVENTS)
    fillers = [_fill(scene.service.data)]
    wait_until(lambda: _status(port) == 503, REFUSED_SECONDS, "a refusal")
    until, stored = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        # What gave its room back meanwhile is taken too: the disk stays full.
        fillers.append(_fill(scene.service.data))
        status = _status(port)
        stored += status == 200
        if status not in (200, 503):
            failures.append(f"answered {status} on a full disk")
        time.sleep(min(0.2, seconds))
    try:
        wait_until(lambda: not scene.ledger.balance().lost, REFUSED_SECONDS, "delivered on a full disk")
    except TimeoutError as error:
        failures.append(str(error))
    began = time.monotonic()
    for filler in fillers:
        filler.unlink(missing_ok=True)
    wait_until(lambda: _status(port) == 200, BACK_SECONDS, "back by itself")
    back = time.monotonic() - began
    if scene.service.processes() != roles:
        failures.append("a role died of the full disk")
    scene.stop_load_and_settle()
    remark = f"full for {seconds:g} s; taking events again {back:.1f} s after there was room"
    return scene.score(KIND, 1, remark=remark, failures=failures)


def _fill(folder: Path) -> Path:
    """Take all the space that is left; return the file that holds it."""
    path = folder / f"filler-{time.monotonic_ns()}"
    with path.open("wb", buffering=0) as file:
        for size in (BLOCK_BYTES, 1):
            try:
                while file.write(b"\xaa" * size) == size:
                    pass
            except OSError:
                continue
    return path


def _status(port: int) -> int:
    """The answer to a big event; its messageId is the service's own, so it is in nobody's ledger."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    key = b64encode(f"{WRITE_KEY}:".encode()).decode()
    try:
        connection.request("POST", "/v1/track", BODY, {"Authorization": f"Basic {key}"})
        return connection.getresponse().status
    except OSError as error:
        print(f"no answer on the full disk: {error}", file=sys.stderr)
        return 0
    finally:
        connection.close()
