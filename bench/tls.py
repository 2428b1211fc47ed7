"""Measure deliveries over TLS to nginx beside wrk's to the same nginx: over kept connections, and with a handshake for
each, in full and resumed."""

from __future__ import annotations

import os
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.service.deliver.certificates import Authority

from bench.job_queues import Missing
from hookline.bench import machine
from hookline.bench.event import one_receiver
from hookline.bench.rig import Figures, rig
from hookline.bench.scenarios import Nginx, fill, hook_script, rate_of, wrk
from hookline.bench.service import free_port

CONFIG = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; client_body_buffer_size 64k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location = /status {{ stub_status; }} }}
  server {{
    listen 127.0.0.1:{tls_port} ssl backlog=1024; ssl_certificate {pair}; ssl_certificate_key {pair};
    ssl_session_cache off; ssl_session_tickets {tickets}; keepalive_timeout {kept};
    location / {{ return 200; }}
  }}
}}
"""
CASES = {"kept": ("off", "600s", 300_000), "full": ("off", "0", 15_000), "resumed": ("on", "0", 15_000)}
"""Of nginx: session tickets, and how long it keeps a connection; and how many events are delivered."""
DRAIN_SECONDS = 120.0


def tls(seconds: float) -> Figures:
    """wrk's rate and ours, and what an event costs ``deliver``. wrk resumes where it can, and never verifies."""
    figures: Figures = {}
    for case, (tickets, kept, events) in CASES.items():
        for name, value in _measured(seconds, tickets, kept, events).items():
            figures[f"tls_{case}_{name}"] = value
    return figures


def _measured(seconds: float, tickets: str, kept: str, events: int) -> Figures:
    if not (machine.tool("nginx") and machine.tool("wrk")):
        raise Missing("this needs nginx and wrk")
    measured, measuring = machine.cores()
    with tempfile.TemporaryDirectory(prefix="hookline-bench-") as name:
        folder = Path(name)
        authority, port = Authority(folder), free_port()
        pair = authority.server_file("127.0.0.1")
        nginx = Nginx(folder / "nginx", CONFIG, tls_port=port, pair=pair, tickets=tickets, kept=kept)
        try:
            machine.pin(nginx.pid, measuring)
            limit, _ = wrk(folder, f"https://127.0.0.1:{port}/hook", hook_script(), seconds, measured)
            settings = {"deliver.ca-file": str(authority.file)}
            with rig(receiver_port=port, connections=_over_tls, settings=settings) as bench:
                sender = fill(bench, events)
                before, cpu = nginx.requests() or 0, machine.cpu_seconds(sender)
                os.kill(sender, signal.SIGCONT)
                rate = rate_of(partial(_count, nginx), seconds)
                machine.wait_until(lambda: _count(nginx) - before >= events, DRAIN_SECONDS, "all deliveries")
                cpu_us = (machine.cpu_seconds(sender) - cpu) / events * 1e6
        finally:
            nginx.stop()
    return {
        "wrk_per_second": limit,
        "per_second": rate,
        "to_wrk_ratio": rate / limit if limit else 0.0,
        "cpu_us_per_event": cpu_us,
    }


def _count(nginx: Nginx) -> int:
    return nginx.requests() or 0


def _over_tls(port: int) -> dict[str, Any]:
    made = one_receiver(port)
    made["destinations"][0]["settings"]["webhooks"][0]["url"] = f"https://127.0.0.1:{port}/hook"
    return made
