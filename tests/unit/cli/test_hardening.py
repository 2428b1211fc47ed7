"""What ``hookline doctor`` says of the hardening of an installation, and that the list of it is whole."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hookline.cli.checkup import hardening, machine
from hookline.cli.service import doctor
from hookline.cli.service.doctor import examine
from hookline.cli.service.supervisor import forbid_core_dumps
from hookline.connections.store import Store
from hookline.setting_values import Networks
from hookline.settings import Collect, Control, Database, Deliver, Journal, Origin, Settings
from tests.docs.pages import section
from tests.postgres import PostgresServer
from tests.unit.cli.test_doctor import here, report
from tests.unit.connections.examples import change, destination, source

TLS = "https://hookline.example.com"
FAR_DATABASE = "postgresql://u@db.example.com/x"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of our own, and a shell elsewhere."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data"
    (path / "run").mkdir(mode=0o700, parents=True)
    Store(path / "control.db").close()
    return path


def statuses(check: Any, at: Any) -> list[str]:
    """The status of each finding; what is not fine says what to do."""
    findings = examine(check, at)
    assert all(each.next_step for each in findings if each.status != "ok")
    return [each.status for each in findings]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["ok"]),
        ({"control": Control(listen="0.0.0.0:8081")}, ["warn"]),
        ({"control": Control(listen="[::]:8081", public_url="http://plain.example.com")}, ["warn"]),
        ({"control": Control(listen="0.0.0.0:8081", public_url=TLS)}, ["ok"]),
        ({"collect": Collect(listen="192.0.2.7:8080")}, ["warn"]),
        ({"collect": Collect(listen="0.0.0.0:8080", public_url=TLS)}, ["ok"]),
        ({"database": Database(url=FAR_DATABASE)}, ["warn"]),
        ({"database": Database(url=f"{FAR_DATABASE}?sslmode=prefer")}, ["warn"]),
        ({"database": Database(url=f"{FAR_DATABASE}?sslmode=verify-full")}, ["ok"]),
        ({"database": Database(url="postgresql:///x?host=/run/postgresql")}, ["ok"]),
        ({"database": Database(url="postgresql://u:p@localhost:5432,127.0.0.1/x")}, ["ok"]),
        ({"journal": Journal(url="kafka://one:9092,two:9092/events")}, ["warn"]),
        ({"journal": Journal(url="kafka://one:9092/events", tls=True)}, ["ok"]),
        ({"journal": Journal(url="kafka://127.0.0.1:9092/events")}, ["ok"]),
    ],
)
def test_networks_without_tls(folder: Path, settings: dict[str, Any], expected: list[str]) -> None:
    """Ports, PostgreSQL and brokers beyond this machine; a proxy's https:// address is taken at its word."""
    assert statuses(hardening.check_listeners, here(folder, **settings)) == expected


@pytest.mark.parametrize(
    ("networks", "proxies", "receivers"),
    [
        ((), ["ok"], ["ok"]),
        (("10.0.0.0/8", "fd00:12:34::/48"), ["ok"], ["ok"]),
        (("0.0.0.0/0",), ["fail"], ["fail"]),
        (("::/0", "10.1.0.0/16"), ["fail"], ["fail"]),
        (("64.0.0.0/4", "2000::/3"), ["fail", "fail"], ["warn", "warn"]),
        (("169.254.0.0/16",), ["ok"], ["fail"]),
        (("127.0.0.0/8", "::1/128"), ["ok"], ["warn", "warn"]),
    ],
)
def test_networks_that_hold_strangers(
    folder: Path, networks: tuple[str, ...], proxies: list[str], receivers: list[str]
) -> None:
    """As proxies whose word is taken, and as receivers inside; a cloud's metadata and this machine are named."""
    allowed = Networks(networks)
    assert statuses(hardening.check_proxies, here(folder, collect=Collect(trusted_proxies=allowed))) == proxies
    assert statuses(hardening.check_networks, here(folder, deliver=Deliver(allow_networks=allowed))) == receivers


@pytest.mark.parametrize(
    ("origin", "expected"), [("default", "ok"), ("file hookline.yaml", "ok"), ("env X", "warn"), ("flag", "fail")]
)
def test_where_the_admin_token_comes_from(folder: Path, origin: str, expected: str) -> None:
    """A flag is in the list of processes, the environment in what crash reports hold."""
    at = here(folder)._replace(origins=[Origin("control.admin_token", "hk_admin_x", origin)])
    assert statuses(hardening.check_secrets, at) == [expected]


def test_short_secrets_are_named_and_not_shown(folder: Path) -> None:
    """By their destination; references and long ones are not meant."""
    store = Store(folder / "control.db")
    for id, secret in (("short", "hunter2"), ("long", "x" * 16), ("elsewhere", "file:short")):
        change(store, *([source()] if id == "short" else []), destination(id, secret=secret))
    store.close()
    (finding,) = examine(hardening.check_secrets, here(folder))
    assert (finding.status, finding.message.partition(": ")[2]) == ("warn", "short's sharedSecret")


@pytest.mark.parametrize(
    ("value", "expected"), [("Bearer written-out", ["warn"]), ("keep", ["ok"]), ("file:x", ["ok"])]
)
def test_a_connections_file_with_a_secret_is_private(folder: Path, value: str, expected: list[str]) -> None:
    """What only refers to secrets may be read by anybody."""
    webhook = f"{{url: 'https://x.example.com/', headers: {{Authorization: '{value}'}}}}"
    path = folder.parent / "connections.yaml"
    path.write_text(f"destinations: [{{id: x, name: X, sources: [], settings: {{webhooks: [{webhook}]}}}}]")
    path.chmod(0o640)
    assert statuses(hardening.check_secrets, here(folder)) == expected
    path.chmod(0o600)
    assert statuses(hardening.check_secrets, here(folder)) == ["ok"]


def test_core_dumps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of the process that runs are looked at, not those of this shell."""
    pid = os.fork()
    if pid == 0:
        forbid_core_dumps()
        os.kill(os.getpid(), 19)  # stands still, with its limits, until the test has looked
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    try:
        (folder / "lock").write_text(str(pid))
        assert statuses(hardening.check_core_dumps, here(folder, report("collect"))) == ["ok"]
        monkeypatch.setattr(hardening, "_dumps_core", lambda process: process == pid)
        assert statuses(hardening.check_core_dumps, here(folder, report("collect"))) == ["fail"]
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.mark.parametrize(("hard", "expected"), [(999, "warn"), (1_000, "ok")])
def test_open_files(folder: Path, monkeypatch: pytest.MonkeyPatch, hard: int, expected: str) -> None:
    """Those of the process that runs, which systemd may allow more, or fewer, than this shell."""
    monkeypatch.setattr(machine, "CONNECTIONS_MAX", 900)
    monkeypatch.setattr(machine, "OPEN_FILES_BESIDE", 100)
    process = subprocess.Popen(
        ["sleep", "60"], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    )
    try:
        (folder / "lock").write_text(str(process.pid))
        (finding,) = machine.check_limits(here(folder, report("collect")))
        assert (finding.status, f"{hard:,} allowed to the service" in finding.message) == (expected, True)
    finally:
        process.kill()
        process.wait()


def test_whose_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root is worth a look; a folder of somebody else's is wrong."""
    (folder / "lock").write_text(str(os.getpid()))
    for running, owner, expected in ((1000, 1000, "ok"), (0, 0, "warn"), (1000, 1001, "fail")):
        owners = {folder: owner}
        monkeypatch.setattr(hardening, "_owner", lambda path, of=owners, else_=running: of.get(path, else_))
        assert statuses(hardening.check_user, here(folder, report("collect"))) == [expected]


def test_a_clock_that_was_never_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 1970 it is wrong; behind the newest file it was set back."""
    monkeypatch.setattr(machine.time, "time", lambda: 1_000.0)
    messages = " ".join(each.message for each in examine(machine.check_clock, here(folder)))
    assert "1970-01-01" in messages
    assert "was set back" in messages


def test_the_clock_of_the_database(folder: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is an hour off PostgreSQL's is told so."""
    at = here(folder, database=Database(url=postgres.url("postgres")))
    assert not [each for each in examine(machine.check_clock, at) if "PostgreSQL" in each.message]
    real = machine.time.time
    monkeypatch.setattr(machine.time, "time", lambda: real() + 3_600)
    assert "3600 s ahead of the clock of PostgreSQL" in " ".join(
        each.message for each in examine(machine.check_clock, at)
    )


def test_the_list_of_the_docs_is_the_doctors() -> None:
    """Every check of this kind has a row there, and every row is a check."""
    named = {check.__name__.removeprefix("check_") for check in doctor.CHECKS}
    listed = set(re.findall(r"^\| `(\w+)`", section("threat-model.md", "Hardening checklist"), re.MULTILINE))
    of_hardening = {name.removeprefix("check_") for name in vars(hardening) if name.startswith("check_")}
    assert of_hardening | {"permissions", "disk", "clock", "settings"} == listed
    assert listed <= named


def test_all_defaults_are_fine(folder: Path) -> None:
    """What is started as it comes has nothing to be named."""
    origins = [Origin("control.admin_token", None, "default")]
    at = here(folder)._replace(settings=Settings(data_dir=str(folder)), origins=origins)
    checks = (hardening.check_listeners, hardening.check_proxies, hardening.check_networks, hardening.check_secrets)
    assert [statuses(check, at) for check in checks] == [["ok"]] * 4
