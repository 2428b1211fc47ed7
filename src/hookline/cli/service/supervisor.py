"""The supervisor: starts the roles, restarts one that dies, and ends them together. Standard library only.

It runs as ``python -m hookline.cli.service.supervisor FOLDER LOCK_FD welcome DRAIN_SECONDS ROLE=FD,FD …``, started by
``hookline up``, and stays small on purpose: it lives as long as the service. The roles are its children in its process
group. Each inherits the reading end of one pipe (its number in ``HOOKLINE_SUPERVISOR_FD``); when the supervisor is
gone, however it went, the pipe closes and they end. It keeps the sockets that roles listen on
(``HOOKLINE_LISTENING_FDS``), bound before it began: who connects while a role is started again waits for it.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time

from hookline.roles import LISTENING_FDS, ROLES, ROLES_WITH_A_FILE, SUPERVISOR_FD, is_wanted
from hookline.telemetry import log_stream

SMALLER = {"control": {"MALLOC_ARENA_MAX": "1"}}
"""What roles that need no speed in threads are started with: without a heap for each thread they take 1 MB less."""

POLL_SECONDS = 1.0
"""From one look for such a file to the next."""

RESTART_FIRST_SECONDS = 0.1
RESTART_MAX_SECONDS = 5.0
STABLE_SECONDS = 10.0
"""A role that lived this long starts over with the shortest pause."""

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""All of these end the service in order. The first process of a container hears only what it listens to."""

STOP_SECONDS = 10.0
"""From the request to end, and what ``collect.drain_delay`` adds, until a role that has not ended is killed."""

FAILED_PAUSE_SECONDS = 1.0
"""A role that is to pause for longer has failed again and again: who connects is refused until it is back."""

USAGE = 2
"""A role that returns this at its first start was given something unusable (settings, connections file, address), which
only a person can mend: the service ends. Of a role that has worked before it is an end like any other, for what changed
beside it must not take down those that go on."""


class Role:
    """One child process and when it may be started again."""

    __slots__ = ("due", "has_worked", "is_refused", "listening", "name", "pause_seconds", "pid", "started")

    def __init__(self, name: str, listening: list[int]) -> None:
        self.name = name
        self.listening = listening
        """The sockets that it listens on, by their numbers."""
        self.has_worked = False
        """Whether it has once lived for ``STABLE_SECONDS``, or joined roles that had begun."""
        self.is_refused = False
        """Whether the system did not let it be started when that was tried last."""
        self.pid = 0
        self.started = 0.0
        self.due = 0.0
        self.pause_seconds = RESTART_FIRST_SECONDS

    def put_off(self, now: float) -> None:
        """Have it started again after its pause, which is longer each time."""
        self.due = now + self.pause_seconds
        self.pause_seconds = min(RESTART_MAX_SECONDS, self.pause_seconds * 2)


class Supervisor:
    """Keeps the roles of one data folder running until it is told to end."""

    def __init__(self, folder: str, welcome: bool, drain_seconds: float, listening: dict[str, list[int]]) -> None:
        self.folder = folder
        self.roles = [Role(name, listening.get(name, [])) for name in ROLES]
        self._stop_seconds = STOP_SECONDS + drain_seconds
        self.awaited = set(ROLES_WITH_A_FILE)
        self.welcome = welcome
        self.welcome_pid = 0
        self.code: int | None = None
        self.pipe_read, self._pipe_write = os.pipe()
        os.set_inheritable(self.pipe_read, True)
        self.environment = {**os.environ, SUPERVISOR_FD: str(self.pipe_read)}

    def run(self) -> int:
        """Supervise until a signal asks to end, or a role says it can never start; return the exit code."""
        wake = self._listen_to_signals()
        self._look_for_files()
        for role in self.roles:
            self._start(role)
        if self.welcome:
            self._show_welcome()
        # Armed crash points fire once: a restarted role must be able to come back.
        self.environment.pop("HOOKLINE_CRASH_POINT", None)
        while self.code is None:
            select.select([wake], [], [], self._next_look_seconds())
            _drain(wake)
            self._reap()
            self._look_for_files()
            now = time.monotonic()
            for role in self.roles:
                if self.code is None and role.pid == 0 and now >= role.due:
                    self._start(role)
        self._stop(wake)
        return self.code

    def _listen_to_signals(self) -> int:
        wake, wake_write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in ENDING_SIGNALS:
            signal.signal(number, self._end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return wake

    def _end(self, *_: object) -> None:
        self.code = 0

    def _next_look_seconds(self) -> float | None:
        waiting = [role.due for role in self.roles if role.pid == 0]
        if self.awaited:
            waiting.append(time.monotonic() + POLL_SECONDS)
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def _look_for_files(self) -> None:
        for name in [name for name in self.awaited if is_wanted(name, self.folder)]:
            self.awaited.remove(name)
            role = Role(name, [])
            role.has_worked = any(each.started for each in self.roles)
            self.roles.append(role)

    def _start(self, role: Role) -> None:
        role.started = time.monotonic()
        arguments = ["hookline.cli.main", role.name, "--supervised", self.folder]
        environment = {**SMALLER.get(role.name, {}), **self.environment}
        if role.listening:
            environment[LISTENING_FDS] = ",".join(map(str, role.listening))
        _let_inherit(role.listening, True)  # and nobody else: who holds one keeps the port
        try:
            role.pid = self._spawn(arguments, environment)
        except (OSError, MemoryError) as error:  # the system has no room for a process just now
            if not role.is_refused:
                _say(f"{role.name} cannot be started ({error}); this is tried until it can")
            role.is_refused = True
            role.put_off(role.started)
            return
        finally:
            _let_inherit(role.listening, False)
        if role.is_refused:
            _say(f"{role.name} could be started")
        role.is_refused = False

    def _show_welcome(self) -> None:
        try:
            self.welcome_pid = self._spawn(["hookline.cli.service.welcome", self.folder], self.environment)
        except (OSError, MemoryError) as error:
            _say(f"the first lines to paste cannot be shown ({error})")

    def _spawn(self, arguments: list[str], environment: dict[str, str]) -> int:
        # Signals that arrived while the interpreter starts must end the child, whatever this process did with them.
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", *arguments],
            environment,
            setsigdef=[*ENDING_SIGNALS, signal.SIGCHLD],
        )

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.welcome_pid:
                self.welcome_pid = 0
            for role in self.roles:
                if role.pid == pid:
                    self._ended(role, os.waitstatus_to_exitcode(status))

    def _ended(self, role: Role, code: int) -> None:
        role.pid = 0
        if self.code is not None:
            return
        now = time.monotonic()
        if now - role.started >= STABLE_SECONDS:
            role.has_worked = True
        if now - role.started >= STABLE_SECONDS or code == 0:  # told to end, it has not failed
            role.pause_seconds = RESTART_FIRST_SECONDS
        if code == USAGE and not role.has_worked:
            self.code = USAGE
            return
        how = f"with code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        _say(f"{role.name} ended {how}; starting it again in {role.pause_seconds:g} s")
        if role.pause_seconds > FAILED_PAUSE_SECONDS:
            _refuse(role.listening)
        role.put_off(now)

    def _stop(self, wake: int) -> None:
        for role in self.roles:
            for each in role.listening:
                os.close(each)
        os.close(self._pipe_write)  # that is how a role knows that no other one takes its sockets over
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + self._stop_seconds
        while self._alive() and (left := deadline - time.monotonic()) > 0:
            select.select([wake], [], [], left)
            _drain(wake)
            self._reap()
        self._signal(signal.SIGKILL)
        while self._alive():
            time.sleep(0.01)
            self._reap()

    def _alive(self) -> list[int]:
        return [pid for pid in (*(role.pid for role in self.roles), self.welcome_pid) if pid]

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._alive():
            os.kill(pid, number)


def forbid_core_dumps() -> None:
    """Let a crash write no image of the memory, which holds secrets and events, for this process and its children."""
    # 0 would still let the kernel pipe it to a collector such as systemd-coredump; 1 is less than any image, and the
    # kernel's sign for no pipe either (core(5)).
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    least = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (least, least))


def _let_inherit(numbers: list[int], inherits: bool) -> None:
    for each in numbers:
        os.set_inheritable(each, inherits)


def _refuse(numbers: list[int]) -> None:
    """Listen no more until a role does again; the sockets stay bound."""
    if not numbers:
        return
    import socket  # nothing else here needs it, and it is never small

    for each in numbers:
        with socket.socket(fileno=os.dup(each)) as listening:
            # One that nobody listened on yet would keep the end of reading, and give it to its connections later.
            if listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                listening.shutdown(socket.SHUT_RD)


def _drain(wake: int) -> None:
    try:
        while os.read(wake, 512):
            pass
    except BlockingIOError:
        pass


def _say(sentence: str) -> None:
    print(f"hookline: {sentence}", file=sys.stderr, flush=True)


def main() -> None:
    """Supervise the folder named on the command line."""
    log_stream.install()
    folder, _lock, welcome, drain_seconds, *kept = sys.argv[1:]
    listening = {
        name: [int(each) for each in fds.split(",") if each] for name, _, fds in (k.partition("=") for k in kept)
    }
    _let_inherit([each for fds in listening.values() for each in fds], False)
    forbid_core_dumps()
    sys.exit(Supervisor(folder, welcome == "welcome", float(drain_seconds), listening).run())


if __name__ == "__main__":
    main()
