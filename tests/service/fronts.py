"""Balancers before the service, as their distributions set them up: each is the real program on a free port.

Beyond that they have what it takes with several upstreams: one that ends is asked no more, or the next one instead.

``FRONTS[name](folder, upstream_ports)`` is a context manager; ``port`` is where it takes calls. ``handing_on`` passes
connections on without looking into them.
"""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hookline.bench.service import free_port
from tests.service.client import send
from tests.service.waiting import WAIT_SECONDS, wait_until

MODULES = Path("/usr/lib/apache2/modules")


class Front:
    """A balancer that passes every call on to one of the upstream ports of this machine."""

    program = ""

    def __init__(self, folder: Path, upstream_ports: Sequence[int]) -> None:
        self.folder = folder / self.program
        self.port = free_port()
        self.upstreams = [f"127.0.0.1:{port}" for port in upstream_ports]
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def configuration(self) -> str:
        """Return the whole configuration file."""

    @abstractmethod
    def command(self, file: Path) -> list[str]:
        """Return what starts the program in the foreground with that file."""

    def start(self) -> Front:
        """Start the program and wait until it answers, whatever it does."""
        self.folder.mkdir()
        file = self.folder / "configuration"
        file.write_text(self.configuration())
        homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(self.folder))
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self.command(file), cwd=self.folder, env={**os.environ, **homes}, stdout=log, stderr=log
            )
        wait_until(self._answers, what=f"{self.program} answers")
        return self

    def stop(self) -> None:
        """End the program at once."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(WAIT_SECONDS)

    @property
    def log(self) -> str:
        """Everything that it printed, errors of its own included."""
        return (self.folder / "log").read_text(errors="replace")

    def __enter__(self) -> Front:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        try:
            return send(self.port, "GET", "/healthz").status > 0
        except OSError:
            return False


class Nginx(Front):
    """nginx, with connections kept to the upstream."""

    program = "nginx"

    def command(self, file: Path) -> list[str]:
        return ["nginx", "-p", str(self.folder), "-c", str(file)]

    def configuration(self) -> str:
        servers = " ".join(f"server {each} max_fails=0;" for each in self.upstreams)
        paths = " ".join(f"{name}_temp_path temp;" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return f"""
user {getpass.getuser()};
worker_processes auto;
daemon off;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 768; }}
http {{
    access_log off;
    {paths}
    upstream hookline {{ {servers} keepalive 32; }}
    server {{
        listen 127.0.0.1:{self.port};
        client_max_body_size 20m;
        location / {{
            proxy_pass http://hookline;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_next_upstream error timeout http_503 non_idempotent;
        }}
    }}
}}
"""


class HAProxy(Front):
    """HAProxy with its distribution's times, asking ``/readyz`` as its checks do."""

    program = "haproxy"

    def command(self, file: Path) -> list[str]:
        return ["haproxy", "-db", "-f", str(file)]

    def configuration(self) -> str:
        servers = "\n".join(
            f"    server hookline{i} {each} check inter 1s fall 2 rise 1" for i, each in enumerate(self.upstreams)
        )
        return f"""
global
    maxconn 4096
defaults
    mode http
    option dontlognull
    timeout connect 5000
    timeout client 50000
    timeout server 50000
frontend events
    bind 127.0.0.1:{self.port}
    default_backend hookline
backend hookline
    option httpchk GET /readyz
    option redispatch
{servers}
"""


class Apache(Front):
    """Apache httpd with mod_proxy and the event model."""

    program = "apache2"

    def command(self, file: Path) -> list[str]:
        return ["apache2", "-D", "FOREGROUND", "-d", str(self.folder), "-f", str(file)]

    def process(self, *modules: str) -> str:
        """Return the lines of a server that listens, whatever it then does with these modules."""
        loaded = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in modules)
        return f"""
{loaded}
ServerName localhost
Listen 127.0.0.1:{self.port}
User www-data
Group www-data
PidFile apache2.pid
DefaultRuntimeDir {self.folder}
ErrorLog /dev/stderr
"""

    def configuration(self) -> str:
        names = ("mpm_event", "authz_core", "reqtimeout", "proxy", "proxy_http", "proxy_balancer", "slotmem_shm")
        members = "\n".join(f"    BalancerMember http://{each} retry=1" for each in self.upstreams)
        return f"""
{self.process(*names, "lbmethod_byrequests")}
Timeout 300
KeepAlive On
MaxKeepAliveRequests 100
KeepAliveTimeout 5
StartServers 2
ThreadsPerChild 25
MaxRequestWorkers 150
RequestReadTimeout header=20-40,minrate=500 body=20,minrate=500
<Proxy balancer://hookline>
{members}
</Proxy>
ProxyPass / balancer://hookline/
"""


class Caddy(Front):
    """Caddy's reverse proxy."""

    program = "caddy"

    def command(self, file: Path) -> list[str]:
        return ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]

    def configuration(self) -> str:
        return f"""
{{
    admin off
    auto_https off
}}
http://:{self.port} {{
    reverse_proxy {" ".join(self.upstreams)} {{
        health_uri /readyz
        health_interval 1s
        lb_try_duration 5s
    }}
}}
"""


FRONTS: dict[str, Callable[[Path, Sequence[int]], Front]] = {
    "nginx": Nginx,
    "haproxy": HAProxy,
    "apache": Apache,
    "caddy": Caddy,
}


@contextmanager
def handing_on(folder: Path, port: int, how: str) -> Iterator[int]:
    """HAProxy handing connections on to a port, saying whose they are (``send-proxy``, ``send-proxy-v2``).

    Yields its own port; its checks say that they are its own.
    """
    own = free_port()
    config = folder / "handing-on.cfg"
    config.write_text(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
        f"listen edge\n bind 127.0.0.1:{own}\n server edge 127.0.0.1:{port} {how} check inter 100ms\n"
    )
    process = subprocess.Popen(
        ["haproxy", "-db", "-f", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        wait_until(lambda: _listens(own), what="HAProxy")
        yield own
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
