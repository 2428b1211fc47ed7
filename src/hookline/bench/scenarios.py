"""Measure collecting, delivering, end to end, idling and a large backlog, and in the same run the machine's own limits:
nginx's static 200 under wrk, and wrk's POST rate.

Figures of Hookline are quoted as ratios to these, since only ratios carry to another machine.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hookline.bench import machine
from hookline.bench.event import AUTHORIZATION, ID_PREFIX, event
from hookline.bench.load import Result
from hookline.bench.machine import pin, tool
from hookline.bench.rig import BATCH, BATCH_CONNECTIONS, EVENTS_MAX, Figures, Rig, rig
from hookline.bench.service import free_port

CONFIG = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s; client_body_buffer_size 64k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location = /status {{ stub_status; }}
    location / {{ return 200; }}
  }}
}}
"""


class Nginx:
    """One nginx process that answers every request with an empty 200, or does what another ``config`` says."""

    def __init__(self, folder: Path, config: str = CONFIG, **values: object) -> None:
        folder.mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._questions = 0
        (folder / "nginx.conf").write_text(config.format(folder=folder, port=self.port, **values))
        program = tool("nginx")
        assert program is not None, "ask tool('nginx') first"
        self._process = subprocess.Popen(
            [program, "-c", str(folder / "nginx.conf"), "-p", str(folder), "-e", str(folder / "error.log")],
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 5
        while self.requests() is None and time.monotonic() < deadline:
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """Return the process id, for pinning."""
        return self._process.pid

    def requests(self) -> int | None:
        """Requests answered so far, these questions aside, or None when nginx does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
        try:
            connection.request("GET", "/status")
            found = re.search(rb"\n\s*\d+\s+\d+\s+(\d+)", connection.getresponse().read())
        except OSError:
            return None
        finally:
            connection.close()
        self._questions += 1
        return int(found[1]) - self._questions if found else None

    def stop(self) -> None:
        """End nginx."""
        self._process.terminate()
        self._process.wait()


def wrk(folder: Path, url: str, script: str, seconds: float, core: int) -> tuple[float, int]:
    """Requests per second wrk reaches with a script, and how many answers were not 2xx or broke."""
    program = tool("wrk")
    assert program is not None, "ask tool('wrk') first"
    file = folder / "wrk.lua"
    file.write_text(script)
    process = subprocess.Popen(
        [
            program,
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{max(1, round(seconds))}s",
            "-s",
            str(file),
            url,
        ],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    pin(process.pid, core)
    output, _ = process.communicate()
    rate = re.search(r"Requests/sec:\s*([\d.]+)", output)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    faults = (int(bad[1]) if bad else 0) + (sum(map(int, broken.groups())) if broken else 0)
    return float(rate[1]) if rate else 0.0, faults


def post_script(body: bytes, headers: dict[str, str]) -> str:
    """Return a wrk script that sends the same POST again and again."""
    lines = ['wrk.method = "POST"', f"wrk.body = [==[{body.decode()}]==]"]
    lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    return "\n".join(lines)


def hook_script() -> str:
    """Return a wrk script with the headers Hookline sends too, so that both write requests of the same size."""
    headers = {
        "User-Agent": "Hookline/1.0",
        "Content-Type": "application/json",
        "X-Message-Id": ID_PREFIX.decode() + "0000000001",
        "X-Signature": "0" * 40,
    }
    return post_script(event(1), headers)


def numbered_script(template: bytes, mark: bytes, headers: dict[str, str]) -> str:
    """Return a wrk script that sends POSTs in which ``mark`` is replaced by a counter of ten digits."""
    before, _, after = template.partition(mark)
    lines = ['wrk.method = "POST"']
    lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    lines += [
        "local number = 0",
        f"local before, after = [==[{before.decode()}]==], [==[{after.decode()}]==]",
        "request = function()",
        "  number = number + 1",
        '  return wrk.format(nil, nil, nil, before .. string.format("%010d", number) .. after)',
        "end",
    ]
    return "\n".join(lines)


CONNECTIONS = 64
DRAINED_EVENTS = 300_000
BACKLOG_EVENTS = 1_000_000
BACKLOG_WAIT_SECONDS = 600.0
SETTLE_SECONDS = 2.0
WARM_UP_EVENTS = 5_000
START_WAIT_SECONDS = 30.0
STILL_SECONDS = 0.5


def collect(seconds: float) -> Figures:
    """Durable acceptance on one core: single calls and batches of 100, saturated, and at half of that open loop."""
    measured, measuring = machine.cores()
    with rig() as bench:
        roles = bench.pin_service(measured)
        os.kill(roles["deliver"], signal.SIGSTOP)  # the sender is another measurement
        single, single_cpu = _with_cpu(
            roles["collect"], lambda: bench.load(core=measuring, connections=CONNECTIONS, seconds=seconds)
        )
        half = bench.load(
            core=measuring, connections=CONNECTIONS, seconds=seconds, rate=single.accepted / single.seconds / 2
        )
        batches, batches_cpu = _with_cpu(
            roles["collect"],
            lambda: bench.load(core=measuring, connections=BATCH_CONNECTIONS, seconds=seconds, batch=BATCH),
        )
        accepted = single.accepted + half.accepted + batches.accepted
        figures = {
            "collect_single_per_second": single.accepted / single.seconds,
            "collect_single_cpu_us_per_event": single_cpu / max(1, single.accepted) * 1e6,
            "collect_single_saturated_p99_ms": single.latency_seconds[1] * 1000,
            "collect_single_half_load_p50_ms": half.latency_seconds[0] * 1000,
            "collect_single_half_load_p99_ms": half.latency_seconds[1] * 1000,
            "collect_batch_events_per_second": batches.accepted / batches.seconds,
            "collect_batch_cpu_us_per_event": batches_cpu / max(1, batches.accepted) * 1e6,
            "collect_batch_p99_ms": batches.latency_seconds[1] * 1000,
            "collect_refused": float(single.refused + half.refused + batches.refused),
            "collect_accepted_not_stored": float(max(0, accepted - bench.service.events_accepted())),
        }
        os.kill(roles["deliver"], signal.SIGCONT)
    return figures | _collect_against_nginx(seconds)


def _with_cpu(pid: int, measure: Callable[[], Result]) -> tuple[Result, float]:
    before = machine.cpu_seconds(pid)
    result = measure()
    return result, machine.cpu_seconds(pid) - before


def _collect_against_nginx(seconds: float) -> Figures:
    if not (machine.tool("nginx") and machine.tool("wrk")):
        return {}
    measured, measuring = machine.cores()
    headers = {"Authorization": AUTHORIZATION.decode(), "Content-Type": "application/json"}
    with TemporaryDirectory(prefix="hookline-bench-") as folder:
        nginx = Nginx(Path(folder) / "nginx")
        try:
            machine.pin(nginx.pid, measured)
            script = post_script(event(1), headers)
            limit, _ = wrk(Path(folder), f"{nginx.url}/v1/track", script, seconds, measuring)
        finally:
            nginx.stop()
        with rig() as bench:
            os.kill(bench.pin_service(measured)["deliver"], signal.SIGSTOP)
            script = numbered_script(event(1), b"0000000001", headers)
            url = f"http://127.0.0.1:{bench.service.collect_port}/v1/track"
            rate, faults = wrk(Path(folder), url, script, seconds, measuring)
            os.kill(bench.service.processes()["deliver"], signal.SIGCONT)
    return {
        "nginx_static_per_second": limit,
        "collect_single_wrk_per_second": rate,
        "collect_single_wrk_faults": float(faults),
        "collect_single_to_nginx_ratio": rate / limit if limit else 0.0,
    }


def deliver(seconds: float) -> Figures:
    """Signed POSTs per second out of a backlog on one core: to the benchmark's receiver, and to nginx."""
    _, measuring = machine.cores()
    with rig() as bench:
        bench.start_receiver(core=measuring)
        sender = fill(bench, DRAINED_EVENTS)
        before = machine.cpu_seconds(sender)
        os.kill(sender, signal.SIGCONT)
        rate = rate_of(bench.received, seconds)
        bench.drain(bench.next_number - 1)
        cpu = machine.cpu_seconds(sender) - before
        seen = bench.delivered(BATCH)
    figures = {
        "deliver_per_second": rate,
        "deliver_cpu_us_per_event": cpu / max(1, seen.accepted) * 1e6,
        "deliver_lost": float(seen.lost),
        "deliver_duplicates": float(seen.duplicates),
        "deliver_wrong_signatures": float(seen.wrong_signatures),
    }
    if machine.tool("nginx") and machine.tool("wrk"):
        figures |= _deliver_to_nginx(seconds)
    return figures


def _deliver_to_nginx(seconds: float) -> Figures:
    measured, measuring = machine.cores()
    with TemporaryDirectory(prefix="hookline-bench-") as folder:
        nginx = Nginx(Path(folder) / "nginx")
        try:
            machine.pin(nginx.pid, measuring)
            script = hook_script()
            limit, _ = wrk(Path(folder), f"{nginx.url}/hook", script, seconds, measured)
            with rig(nginx.port) as bench:
                os.kill(fill(bench, DRAINED_EVENTS), signal.SIGCONT)
                rate = rate_of(lambda: nginx.requests() or 0, seconds)
        finally:
            nginx.stop()
    return {
        "wrk_post_per_second": limit,
        "deliver_nginx_per_second": rate,
        "deliver_to_wrk_ratio": rate / limit if limit else 0.0,
    }


def fill(bench: Rig, events: int) -> int:
    """Collect a backlog while the sender stands still; return the sender's process id."""
    measured, measuring = machine.cores()
    pid = bench.pin_service(measured)["deliver"]
    os.kill(pid, signal.SIGSTOP)
    bench.load(core=measuring, connections=BATCH_CONNECTIONS, seconds=120, batch=BATCH, events_max=events)
    return pid


def rate_of(count: Callable[[], int], seconds: float) -> float:
    """Return how fast a count grows once it has begun to: over at most ``seconds``, or until it stands still."""
    warm = count() + WARM_UP_EVENTS
    deadline = time.monotonic() + START_WAIT_SECONDS
    while count() < warm and time.monotonic() < deadline:
        time.sleep(0.01)
    first, began = count(), time.monotonic()
    last, moved = first, began
    while time.monotonic() - began < seconds and time.monotonic() - moved < STILL_SECONDS:
        time.sleep(0.02)
        now = count()
        if now > last:
            last, moved = now, time.monotonic()
    return (last - first) / (moved - began) if moved > began else 0.0


def e2e(seconds: float) -> Figures:
    """Batches in, one signed POST per event out, everything on all cores: saturated, then at half of that rate."""
    with rig() as bench:
        bench.start_receiver()
        bench.saturate(1.0)  # warm-up
        roles = bench.service.processes()
        cpu = {role: machine.cpu_seconds(roles[role]) for role in ("collect", "deliver")}
        saturated, rate = bench.saturate(seconds)
        cpu = {role: machine.cpu_seconds(roles[role]) - used for role, used in cpu.items()}
        first = bench.next_number
        half = bench.load(connections=32, seconds=seconds, batch=BATCH, rate=rate / 2)
        bench.drain(bench.next_number - 1)
        at_half, overall = bench.delivered(BATCH, first), bench.delivered(BATCH)
    p50, p99, p999, longest = at_half.latency_seconds
    return {
        "e2e_per_second": rate,
        "e2e_collect_cpu_us_per_event": cpu["collect"] / max(1, saturated.accepted) * 1e6,
        "e2e_deliver_cpu_us_per_event": cpu["deliver"] / max(1, saturated.accepted) * 1e6,
        "e2e_half_load_per_second": half.accepted / half.seconds,
        "e2e_half_load_p50_ms": p50 * 1000,
        "e2e_half_load_p99_ms": p99 * 1000,
        "e2e_half_load_p999_ms": p999 * 1000,
        "e2e_half_load_max_ms": longest * 1000,
        "e2e_half_load_accept_p99_ms": half.latency_seconds[1] * 1000,
        "e2e_refused": float(saturated.refused + half.refused),
        "e2e_lost": float(overall.lost),
        "e2e_duplicates": float(overall.duplicates),
        "e2e_wrong_signatures": float(overall.wrong_signatures),
    }


def idle(seconds: float) -> Figures:
    """Start to ready, and the memory of all roles when nothing happens."""
    with rig() as bench:
        time.sleep(SETTLE_SECONDS)
        figures = {"start_to_ready_seconds": bench.service.start_seconds}
        return figures | _memory(bench, "idle")


def backlog(seconds: float, events: int = BACKLOG_EVENTS) -> Figures:
    """Many events for a receiver that is away and comes back, everything killed and started again in between.

    Memory on the way, how long the start takes with all of them waiting, and what was lost.
    """
    with rig(events_max=events + EVENTS_MAX) as bench:
        bench.load(connections=BATCH_CONNECTIONS, seconds=600, batch=BATCH, events_max=BATCH)
        figures = _memory(bench, "backlog_start")
        filled = bench.load(connections=BATCH_CONNECTIONS, seconds=600, batch=BATCH, events_max=events)
        figures |= _memory(bench, "backlog_full")
        bench.service.kill()
        bench.service.start()
        bench.start_receiver()
        began, total = time.monotonic(), bench.next_number - 1
        while bench.received() < total // 2 and time.monotonic() - began < BACKLOG_WAIT_SECONDS:
            time.sleep(0.1)
        figures |= _memory(bench, "backlog_half_drained")
        bench.drain(total)
        drained = time.monotonic() - began
        seen = bench.delivered(BATCH)
        figures |= _memory(bench, "backlog_drained")
    return figures | {
        "backlog_events": float(total),
        "backlog_filled_per_second": filled.accepted / filled.seconds,
        "backlog_start_to_ready_seconds": bench.service.start_seconds,
        "backlog_drained_seconds": drained,
        "backlog_drained_per_second": total / drained,
        "backlog_lost": float(seen.lost),
        "backlog_duplicates": float(seen.duplicates),
    }


def _memory(bench: Rig, name: str) -> Figures:
    figures: Figures = {}
    total_rss = total_pss = 0
    for role, pid in bench.service.processes().items():
        memory = machine.memory_of(pid)
        total_rss += memory.rss
        total_pss += memory.pss
        figures[f"{name}_{role}_rss_mb"] = memory.rss / 1e6
    return figures | {f"{name}_rss_mb": total_rss / 1e6, f"{name}_pss_mb": total_pss / 1e6}
