"""This machine booted a second time: systemd in namespaces of its own, on a copy of the root that goes with it.

What is installed and written inside is in memory. Processes, mounts, units and the journal are its own; the network is
that of this machine, so that packages can be installed. Needs root or sudo, and cgroups of the second version.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from scripts.release.packages import copy_sources

from tests.service.harness import wait_until

BOOT = """set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
cd root
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for each in null zero full random urandom tty; do touch dev/$each; mount --bind /dev/$each dev/$each; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=1777 tmpfs dev/shm
cp -r "$1-sources" usr/src/hookline
# Nothing of this machine is started, but what takes logs.
for each in {etc,lib}/systemd/system/*.wants/*; do
    case "$each" in *systemd-journald*) ;; *) ln -sf /dev/null "etc/systemd/system/${each##*/}" ;; esac
done
mkdir .old
pivot_root . .old
umount -l .old
mount --make-rshared /
exec env -i container=test PATH="$PATH" /lib/systemd/systemd --unit=basic.target --log-target=null
"""
NAMESPACES = ("--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup")
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CHECKOUT = "/usr/src/hookline"
BOOT_SECONDS_MAX = 60.0
RUN_SECONDS_MAX = 400.0


class Booted:
    """A context manager; what is in the repository lies in ``/usr/src/hookline`` inside."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "booted"
        self._log = folder / "booted.log"
        self._privileged = [] if os.geteuid() == 0 else ["sudo", "-n"]

    def __enter__(self) -> Booted:
        self._folder.mkdir()
        self._folder.chmod(0o755)
        copy_sources(Path(f"{self._folder}-sources"))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *self._privileged,
                    "env",
                    f"PATH={PATHS}",
                    "unshare",
                    *NAMESPACES,
                    "bash",
                    "-c",
                    BOOT,
                    "boot",
                    self._folder,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
            )
        try:
            wait_until(self._is_up, BOOT_SECONDS_MAX, "systemd runs")
        except BaseException as error:
            error.add_note(self._log.read_text())
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # With the first process of its namespace everything in it ends, and with it the mounts.
        pid = self._first() or self._process.pid
        subprocess.run([*self._privileged, "kill", f"-{signal.SIGKILL:d}", str(pid)], check=False)
        self._process.wait(BOOT_SECONDS_MAX)

    def run(self, script: str, variables: Mapping[str, str] | None = None) -> str:
        """Return what a script prints that root runs in the checkout, each of its commands shown.

        Raises AssertionError if one of them fails.
        """
        done = self._inside(f"set -eux\ncd {CHECKOUT}\n{script}", variables or {})
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _is_up(self) -> bool:
        assert self._process.poll() is None, "it ended"
        return bool(self._first()) and "running" in self._inside("systemctl is-system-running", {}).stdout

    def _inside(self, script: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        pid = self._first()
        assert pid is not None, "systemd has ended"
        given = {"PATH": PATHS, "HOME": "/root"} | dict(variables)
        command = ["nsenter", "--target", str(pid), "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--root", "--wd"]
        words = [*self._privileged, *command, "env", *(f"{name}={value}" for name, value in given.items())]
        return subprocess.run(
            [*words, "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )

    def _first(self) -> int | None:
        """The process that is the first one inside, as it is numbered here, once it is systemd."""
        pid = self._process.pid
        while (child := _read(f"/proc/{pid}/task/{pid}/children").partition(" ")[0]) != "":
            pid = int(child)
            if _read(f"/proc/{pid}/comm") == "systemd\n":
                return pid
        return None


def _read(path: str) -> str:
    """Return what a file of ``/proc`` says, nothing once its process has ended."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def block(text: str, beginning: str) -> str:
    """Return the block of commands of a page that begins with these words, without its indentation."""
    for found in text.split("```sh\n")[1:]:
        commands = "\n".join(line.strip() for line in found.partition("```")[0].splitlines())
        if commands.startswith(beginning):
            return commands
    raise AssertionError(f"no block begins with {shlex.quote(beginning)}")
