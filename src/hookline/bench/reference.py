"""The machine's limits, measured in the same run: nginx's static 200 under wrk, and wrk's POST rate.

Figures of Hookline are quoted as ratios to these, since only ratios carry to another machine.
"""

from __future__ import annotations

import http.client
import re
import subprocess
import time
from pathlib import Path

from hookline.bench.machine import pin, tool
from hookline.bench.service import free_port

CONNECTIONS = 64

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
    """One nginx process that answers every request with an empty 200."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.port = free_port()
        self._questions = 0
        (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=self.port))
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


def wrk(folder: Path, port: int, path: str, script: str, seconds: float, core: int) -> tuple[float, int]:
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
            f"http://127.0.0.1:{port}{path}",
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
