"""Try the README's first command and the container image on Debian systems that have nothing; write what came of it.

Needs root, debootstrap, buildah, podman and runc; no registry of containers is asked. The systems are folders below
``--folder``, made by debootstrap; they share the network of this machine and see its certificates.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname

from scripts.release.packages import build, build_python, run
from scripts.release.versions import ROOT, version

SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
PATHS = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT")
COLLECT, CONTROL = "127.0.0.1:18490", "127.0.0.1:18491"
LISTENS = {"HOOKLINE_COLLECT_LISTEN": COLLECT, "HOOKLINE_CONTROL_LISTEN": CONTROL}
WAIT_SECONDS = 300.0
NOT_TRIED = (
    "Docker itself, and Podman with crun: `buildah` built the image and `podman --runtime runc` ran it",
    "the base `python:3.11-slim-bookworm`: no registry was reached, so the base is Debian 12 with its own Python 3.11",
    "published ports (`-p`): the container had the machine's network; and health checks by a timer, which need systemd",
    "`docker compose up` and `helm install`: both files are validated only (`make release`)",
)


def make_root(suite: str, folder: Path) -> Path:
    """Return a new system of a suite; the next ones are copies of the first."""
    kept = folder / suite
    if not kept.exists():
        run(["debootstrap", "--variant=minbase", suite, kept, "http://deb.debian.org/debian"], folder)
    root = Path(tempfile.mkdtemp(prefix=f"{suite}-", dir=folder)) / "root"
    run(["cp", "--archive", kept, root], folder)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {gethostname()}\n")
    return root


def inside(root: Path, script: str, user: str = "root") -> list[str]:
    """Return the command that runs a script in a system, in mounts of its own."""
    variables = {name: os.environ[name] for name in CERTIFICATES if name in os.environ} | LISTENS
    given = " ".join(f"{name}={value}" for name, value in variables.items())
    (root / "tmp/script.sh").write_text(f"export {given} DEBIAN_FRONTEND=noninteractive\nset -e\ncd\n{script}\n")
    home = "/root" if user == "root" else f"/home/{user}"
    mounts = f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev"
    if (root / "etc/ssl/certs").is_dir():
        mounts += f" && mount --bind /etc/ssl/certs {root}/etc/ssl/certs"
    command = f"{mounts} && exec chroot --userspec={user}:{user} {root} env -i PATH={PATHS} HOME={home}"
    command += " bash /tmp/script.sh"
    return ["unshare", "--mount", "sh", "-c", command]


def try_readme(suite: str, folder: Path) -> Iterator[str]:
    """Yield rows of the table: an ordinary user with sudo, ``make run`` in a fresh copy, and the wheels."""
    root = make_root(suite, folder)
    packages = "make git ca-certificates sudo python3"
    quiet = ">/dev/null 2>&1"
    user = "useradd -m -s /bin/bash anna; echo 'anna ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/anna"
    install = f"apt-get update -qq; apt-get install -y -qq --no-install-recommends {packages} {quiet}"
    run(inside(root, f"{install}\n{user}"), folder)
    run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, root / "home/anna/hookline"], folder)
    run(["chroot", root, "chown", "-R", "anna", "/home/anna"], folder)
    yield from tried(root, f"{SUITES[suite]}, `make run`", "cd hookline && make run", "hookline", ".venv/bin/hookline")
    build(root / "tmp/dist", [build_python])
    install = "python3 -m venv environment && environment/bin/pip install --quiet /tmp/dist/*.whl"
    start = f"{install} && exec environment/bin/hookline up --quickstart"
    yield from tried(root, f"{SUITES[suite]}, the wheels by `pip`", start, ".", "environment/bin/hookline")
    shutil.rmtree(root.parent)


def tried(root: Path, what: str, start: str, folder: str, command: str) -> Iterator[str]:
    """Yield a row of the table: start a service as an ordinary user, send an event, ask doctor, end it with Ctrl-C."""
    began = time.monotonic()
    log = root / "tmp/log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            inside(root, start, "anna"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        key = wait_for_key(log, process)
        said = [f"welcome after {time.monotonic() - began:.0f} s", python_of(root)]
        send(key, "from-outside")
        retried(inside(root, f"cd {folder} && {command} why from-outside", "anna"), root)
        doctor = run(inside(root, f"cd {folder} && {command} doctor", "anna"), root)
        said += ["an event is found", re.findall(r"^0 wrong, .*fine$", doctor, re.MULTILINE)[0]]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(WAIT_SECONDS)
    if "control_stopped" not in log.read_text():
        raise RuntimeError(f"did not end in order: {log.read_text()[-2000:]}")
    yield f"| {what} | {', '.join(said)} | Ctrl-C ends it in order |"


def python_of(root: Path) -> str:
    """Return which Python a system has."""
    return run(["chroot", root, "python3", "--version"], root).strip()


def wait_for_key(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the write key of the welcome."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (said := re.search(r"Write key  (\S+)", log.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"no welcome: {log.read_text()[-2000:]}")
        time.sleep(0.1)
    return said[1]


def send(key: str, message: str) -> None:
    """Send an event from outside of the system."""
    body = json.dumps({"userId": "u1", "event": "Signed Up", "messageId": message}).encode()
    headers = {"Authorization": f"Basic {b64encode(f'{key}:'.encode()).decode()}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{COLLECT}/v1/track", body, headers)
    urllib.request.urlopen(request, timeout=30).read()


def retried(command: list[str], folder: Path) -> str:
    """Run a command until it succeeds, and return what it printed."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return run(command, folder)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise


def try_container(folder: Path) -> Iterator[str]:
    """Yield rows of the table: the image from a base pinned by digest, and a container of it as the page says."""
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/containers"\nrunroot = "{folder}/run"\n'
    )
    os.environ |= {"CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf", "BUILDAH_ISOLATION": "chroot"}
    base = import_base(folder)
    began = time.monotonic()
    image = f"hookline:{version()}"
    run(["sh", "scripts/image.sh", image], ROOT, {"ENGINE": "buildah", "PYTHON_IMAGE": base})
    took = time.monotonic() - began
    sizes = [int(run(["podman", "image", "inspect", "--format", "{{.Size}}", name], folder)) for name in (image, base)]
    yield f"| `make image` from a base by digest | {took:.0f} s | {(sizes[0] - sizes[1]) / 1e6:.0f} MB on top of it |"
    # The usual limit of open files may be more than this machine allows.
    limits = ["--ulimit", "nofile=10000:10000", "--ulimit", "nproc=4000:4000", "--network", "host"]
    ours = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--stop-timeout", "20", "-v", "hookline-data:/data"]
    listens = [word for name, value in LISTENS.items() for word in ("--env", f"{name}={value}")]
    podman = ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs"]
    start = [*podman, "run", "--detach", "--name", "hookline", "--log-driver", "k8s-file", *limits, *ours, *listens]
    run([*start, image, "hookline", "up", "--quickstart"], folder)
    try:
        key = re.search(r"Write key  (\S+)", wait_for_log(folder))
        assert key, "no welcome"
        send(key[1], "from-outside")
        shell = [*podman, "exec", "hookline"]
        said = retried([*shell, "hookline", "why", "from-outside"], folder)
        yield f"| a container of it, an event | {said.splitlines()[0]} | `hookline why` |"
        retried([*podman, "healthcheck", "run", "hookline"], folder)
        retried([*shell, "python", "-I", "/opt/hookline/healthy.py", "all"], folder)
        who = run([*shell, "id", "-u"], folder).strip()
        yield f"| its health check | passes, also with every role (`all`) | runs as user {who}, root read-only |"
        began = time.monotonic()
        run([*podman, "stop", "hookline"], folder)
        code = run([*podman, "inspect", "--format", "{{.State.ExitCode}}", "hookline"], folder).strip()
        yield f"| `stop` | {time.monotonic() - began:.1f} s, exit code {code} | |"
        run([*podman, "start", "hookline"], folder)
        said = retried([*shell, "hookline", "why", "from-outside"], folder)
        yield f"| started again on its volume | {said.splitlines()[0]} | the event is still there |"
    finally:
        run([*podman, "rm", "--force", "--volumes", "hookline"], folder)


def wait_for_log(folder: Path) -> str:
    """Return what the container printed once it has said its welcome."""
    deadline = time.monotonic() + WAIT_SECONDS
    while "Write key" not in (said := run(["podman", "logs", "hookline"], folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return said


def import_base(folder: Path) -> str:
    """Make an image of Debian with its Python, and return its name by digest."""
    root = make_root("bookworm", folder)
    packages = "python3 python3-venv ca-certificates"
    install = f"apt-get update -qq; apt-get install -y -qq --no-install-recommends {packages} >/dev/null 2>&1"
    install += "; apt-get clean; rm -rf /var/lib/apt/lists/*"
    run(inside(root, f"{install}\nln -s python3 /usr/bin/python"), folder)
    if "SSL_CERT_FILE" in os.environ:
        shutil.copy(os.environ["SSL_CERT_FILE"], root / "etc/ssl/certs/ca-certificates.crt")
        (root / "etc/pip.conf").write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n")
    container = run(["buildah", "from", "scratch"], folder).strip()
    run(["buildah", "add", "--quiet", container, root, "/"], folder)
    run(["buildah", "commit", "--quiet", "--rm", container, "localhost/python:3.11-slim-bookworm"], folder)
    shutil.rmtree(root.parent)
    inspect = ["podman", "image", "inspect", "--format", "{{.Digest}}", "localhost/python:3.11-slim-bookworm"]
    return f"localhost/python@{run(inspect, folder).strip()}"


def page(rows: list[str]) -> str:
    """Return the report."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    commit = run(["git", "rev-parse", "--short=12", "HEAD"], ROOT).strip()
    return "\n".join(
        [
            "# Packages and images, tried where nothing is",
            "",
            "Each row was done on a Debian that debootstrap just made, with `make`, Git, Python and sudo: the first",
            "command of the README and the wheels by an ordinary user, and the image by the script of a release. `pip`",
            "took the newest dependencies that fit; every `make test` and `make release` take the locked ones.",
            "Times are as they came, beside whatever else the machine did.",
            "",
            f"Made on {day} by `make roots` of {commit}; the command writes this page anew.",
            "",
            "| What | Result | |",
            "|---|---|---|",
            *rows,
            "",
            "Not tried:",
            "",
            *(f"- {each};" for each in NOT_TRIED[:-1]),
            f"- {NOT_TRIED[-1]}.",
            "",
        ]
    )


def main() -> None:
    """Try everything, and write the page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/roots")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.resolve()
    rows = [row for suite in SUITES for row in try_readme(suite, folder)] + list(try_container(folder))
    text = page(rows)
    print(text)
    if options.write:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
