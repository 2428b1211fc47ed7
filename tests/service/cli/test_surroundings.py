"""``hookline up`` where its surroundings fail: log readers, descriptors, processes, locks and signals."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hookline.database.sqlite import Connection, connect
from tests.service.cli.conftest import environment
from tests.service.harness import COMMAND, Hookline, Receiver, fill_pipe, wait_until, webhook
from tests.service.waiting import WAIT_SECONDS

NewHookline = Callable[..., Hookline]
QUIET = {"log.format": "json"}


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that a service may write its log into; both ends are closed afterwards, if they are not."""
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass


def launch_into(hookline: Hookline, log: int) -> None:
    """Start the service with both its outputs on this descriptor, and close that here."""
    hookline.launch(log)
    os.close(log)
    hookline.wait_ready()


def each_role_comes_back(hookline: Hookline) -> None:
    """Kill one role after another; each is started again."""
    for role in ("collect", "deliver", "control"):
        before = hookline.role(role)
        os.kill(before, signal.SIGKILL)
        wait_until(
            lambda role=role, before=before: hookline.role(role, required=False) not in (0, before),  # type: ignore[misc]
            what=f"{role} is started again",
        )
    hookline.wait_ready()


def test_a_log_reader_that_is_gone_ends_nothing(new_hookline: NewHookline, pipe: tuple[int, int]) -> None:
    """`hookline up | tee log` whose tee has ended: roles that die come back, and SIGTERM ends it with 0."""
    hookline = new_hookline(settings=QUIET)
    reading, writing = pipe
    launch_into(hookline, writing)
    os.close(reading)
    each_role_comes_back(hookline)
    hookline.track()
    assert hookline.stop() == 0


def test_a_log_reader_that_stands_still_holds_up_nothing(new_hookline: NewHookline, pipe: tuple[int, int]) -> None:
    """A full log pipe: roles are started again, calls are answered; who reads again finds the lines that waited."""
    hookline = new_hookline(settings=QUIET)
    reading, writing = pipe
    launch_into(hookline, os.dup(writing))
    fill_pipe(writing)
    each_role_comes_back(hookline)
    hookline.track()
    read = threading.Thread(target=lambda: seen.extend(iter(lambda: os.read(reading, 65_536), b"")))
    seen: list[bytes] = []
    read.start()
    wait_until(lambda: b"deliver ended by SIGKILL" in b"".join(seen), what="the lines that waited are written")
    os.close(writing)
    assert hookline.stop() == 0
    read.join(WAIT_SECONDS)


def test_it_ends_while_its_log_is_full(new_hookline: NewHookline, pipe: tuple[int, int]) -> None:
    """SIGTERM is heard, and every process is gone within its time, while nobody reads the log."""
    hookline = new_hookline(settings=QUIET)
    launch_into(hookline, os.dup(pipe[1]))
    fill_pipe(pipe[1])
    os.kill(hookline.role("deliver"), signal.SIGKILL)
    wait_until(lambda: hookline.role("deliver", required=False), what="deliver is started again")
    assert hookline.stop() == 0


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_descriptors(new_hookline: NewHookline, closed: str) -> None:
    """Started without standard input, output or error it runs, and no file of ours takes their place."""
    hookline = new_hookline(command=("sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND))
    with hookline:
        assert hookline.process is not None
        hookline.track()
        assert (hookline.data / "lock").read_text().strip() == str(hookline.process.pid)
        for pid in hookline.members():
            taken = [os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)]
            assert not [path for path in taken if path.startswith(str(hookline.data))], taken


def test_a_process_that_cannot_be_made_is_made_later(new_hookline: NewHookline) -> None:
    """While the system refuses processes a role that died waits, with a sentence; the others go on. SIGQUIT then ends
    all in order, as SIGTERM does, also a container's first process, which hears only what it listens to."""
    hookline = new_hookline().start()
    assert hookline.process is not None
    supervisor = hookline.process.pid
    before = resource.prlimit(supervisor, resource.RLIMIT_AS)
    resource.prlimit(supervisor, resource.RLIMIT_AS, (1, before[1]))
    os.kill(hookline.role("deliver"), signal.SIGKILL)
    wait_until(lambda: "deliver cannot be started" in hookline.log, what="it says so")
    hookline.track()
    assert hookline.process.poll() is None
    resource.prlimit(supervisor, resource.RLIMIT_AS, before)
    wait_until(lambda: hookline.role("deliver", required=False), what="deliver is started")
    hookline.process.send_signal(signal.SIGQUIT)
    assert hookline.process.wait(WAIT_SECONDS) == 0
    wait_until(lambda: not hookline.members(), what="its roles are gone")


def test_a_locked_database_is_waited_for_in_an_upgrade(new_hookline: NewHookline) -> None:
    """Another program holds a file of an older version beyond every patience: control waits, says so, and goes on."""
    hookline = new_hookline(settings=QUIET)
    hookline.data.mkdir(parents=True, mode=0o700)
    held = before_the_first_migration(hookline.data / "control.db")
    process = hookline.launch()
    control = wait_until(lambda: hookline.role("control", required=False), what="control runs")
    wait_until(lambda: said_to_wait(hookline, "control"), 60, "control.db is waited for")
    assert process.poll() is None
    held.execute("ROLLBACK")
    held.close()
    hookline.wait_ready()
    assert hookline.role("control") == control
    hookline.track()


def before_the_first_migration(path: Path) -> Connection:
    """Make such a file and hold its one place to write."""
    path.touch(0o600)
    connection = connect(path)
    connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    connection.execute("BEGIN IMMEDIATE")
    return connection


def said_to_wait(hookline: Hookline, which: str) -> bool:
    """Whether a role's log line says that it waits for this file."""
    return any('"waiting_for_database"' in line and f"{which}.db" in line for line in hookline.log.splitlines())


def test_a_start_without_room_is_a_sentence(new_hookline: NewHookline) -> None:
    """`up` where not a byte can be written says which file and ends with 1."""
    hookline = new_hookline()
    config, _ = hookline.write_files()
    words = [*COMMAND, "--config", str(config)]
    full = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words]
    refused = subprocess.run(full, capture_output=True, text=True, timeout=60, cwd=hookline.folder, check=False)
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False), refused.stderr
    assert "launch.json" in refused.stderr


def test_a_file_that_cannot_be_read_is_a_sentence(new_hookline: NewHookline) -> None:
    """Control says which one, and starts once it can be."""
    hookline = new_hookline()
    token = hookline.data / "admin-token"
    token.mkdir(parents=True)
    hookline.launch()
    wait_until(lambda: f"Is a directory: '{token}'" in hookline.log, what="it is said")
    token.rmdir()
    hookline.wait_ready()


def test_a_folder_of_another_user_is_said_to_be_so(new_hookline: NewHookline) -> None:
    """Doctor and renew, run by somebody who may not read it, say what to do."""
    hookline = new_hookline()
    hookline.data.mkdir(parents=True, mode=0o700)
    with closed_to_others(hookline.data):
        assert "Run this as the user that runs Hookline" in said_to_another(hookline.data, "doctor")
        assert "Permission denied" in said_to_another(hookline.data, "renew", "privacy-key")


def test_whether_the_service_of_another_user_runs_is_not_guessed() -> None:
    """Doctor advises nobody to start a second one."""
    with TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "data"
        folder.mkdir(mode=0o700)
        with closed_to_others(folder):
            found = said_to_another(folder, "doctor")
    assert ("cannot see whether Hookline runs" in found, "Start it: hookline up" in found) == (True, False)


@contextmanager
def closed_to_others(folder: Path) -> Iterator[None]:
    """Close a folder to whom ``said_to_another`` runs commands as: to ourselves where we cannot be somebody else."""
    if os.geteuid() != 0:
        folder.chmod(0)
    yield
    folder.chmod(0o700)


def said_to_another(folder: Path, *words: str) -> str:
    """What a command that fails says to a user who may not read the data folder."""
    other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    line = [*other, *COMMAND[:-1], *words, "--data-dir", str(folder)]
    done = subprocess.run(line, cwd="/", env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "HOOKLINE_TRACEBACK" not in done.stderr
    return done.stdout + done.stderr


def test_a_closed_current_folder_holds_no_files(tmp_path: Path) -> None:
    """A command that root runs as the service's user works in a folder that this user may not enter, and so does the
    service; a file that is named there is said to be out of reach."""
    other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "hookline.yaml").write_text("not: {a: setting}")

    def said(*words: str) -> str:
        line = ["sh", "-c", 'chmod 0 . && exec "$@"', "sh", *other, *COMMAND[:-1], *words, "--data-dir", "/nowhere"]
        done = subprocess.run(line, cwd=closed, env=environment(), capture_output=True, text=True, check=False)
        closed.chmod(0o700)
        return done.stdout + done.stderr

    assert "/nowhere" in said("up")
    assert "cannot read the settings file hookline.yaml: Permission denied" in said("up", "--config", "hookline.yaml")
    assert "cannot read the connections file c.yaml: Permission denied" in said("up", "--connections", "c.yaml")
    assert "no admin token in /nowhere" in said("users", "list")
    assert "not missing" in said("renew", "privacy-key")
    findings = {each["check"]: each["message"] for each in json.loads(said("doctor", "--json"))["findings"]}
    assert findings["settings"] == "all can be used"
    assert findings["connections"] == "no connections file is used here"
    assert "cannot be checked" not in findings["secrets"]


def test_every_address_of_both_kinds(new_hookline: NewHookline) -> None:
    """`[::]` takes calls by IPv4 and by IPv6, on both ports, and an IPv4 caller is known by its IPv4 address."""
    hookline = new_hookline()
    ports = hookline.collect_port, hookline.control_port
    hookline.settings |= {"collect.listen": f"[::]:{ports[0]}", "control.listen": f"[::]:{ports[1]}"}
    hookline.settings["log.format"] = "json"
    with hookline:
        for port in ports:
            assert [by(host, port) for host in ("127.0.0.1", "::1")] == [200, 200]
        assert hookline.api("POST", "tokens", {"name": "ci", "scope": "read"}).status == 201
        entries = hookline.api("GET", "audit-log").json["items"]
        assert {each["address"] for each in entries if each["address"]} == {"127.0.0.1"}


def by(host: str, port: int) -> int:
    """The status of /readyz, asked at this address."""
    connection = HTTPConnection(host, port, timeout=30)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_long_path_without_a_temporary_folder(receiver: Receiver, new_hookline: NewHookline, tmp_path: Path) -> None:
    """Sockets of a data folder deeper than their paths may be need no other folder: control reaches collect by them."""
    deep = tmp_path / "-".join(["deep"] * 40)
    hookline = new_hookline(webhook("crm", receiver.url()), settings={"data_dir": str(deep)})
    hookline.data = deep
    with hookline:
        receiver.wait_for(hookline.track())
        assert hookline.api("POST", "deletion-requests", {"userId": "u1", "action": "delete"}).status == 201
        wait_until(lambda: any(each.json["type"] == "delete" for each in receiver.requests), what="it is delivered")
        assert (deep / "run" / "collect.sock").is_socket()
