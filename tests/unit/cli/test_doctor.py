"""What ``hookline doctor`` finds, part by part."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hookline.cli.checkup import configured, database, machine, running
from hookline.cli.checkup.here import Finding, Here
from hookline.cli.launch import Launch
from hookline.cli.service.doctor import examine
from hookline.cli.target import Target
from hookline.connections.model import Pause
from hookline.connections.store import Store
from hookline.database.connect import connect
from hookline.database.location import Schema
from hookline.database.open import ensure, open_deliver
from hookline.features.fleet.metrics import RoleReport
from hookline.features.notices.conditions.finding import Finding as Found
from hookline.features.notices.log import NoticeLog
from hookline.setting_text import shown, written
from hookline.settings import (
    Bytes,
    Control,
    Database,
    Dedup,
    Deliver,
    Journal,
    Notices,
    Origin,
    Retention,
    Seconds,
    Secrets,
    Settings,
    Smtp,
    Urls,
)
from tests.postgres import TEMPLATE, PostgresServer
from tests.service.deliver.certificates import DAY, Authority
from tests.unit.connections.examples import change, destination, give_line_ends, source


def here(folder: Path, reports: dict[str, RoleReport] | None = None, **settings: Any) -> Here:
    """An installation in a folder, with these reports of its roles."""
    return Here(Settings(data_dir=str(folder), **settings), [], [], None, reports or {}, Target())


def report(role: str, fresh: bool = True, **values: Any) -> dict[str, RoleReport]:
    """What one role reports."""
    return {role: RoleReport(role, fresh, values)}


def found(check: Callable[[Here], Iterator[Finding]], at: Here) -> list[tuple[str, str]]:
    """Status and sentence of each finding."""
    return [(each.status, each.message) for each in examine(check, at)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder of our own."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    return path


def test_little_disk_is_wrong_and_too_little_for_retention_worth_a_look(folder: Path) -> None:
    """With a number for retention.bytes that would fit."""
    ((status, message),) = found(database.check_disk, here(folder, notices=Notices(disk_free=Bytes(2**80))))
    assert (status, "nearly full" in message) == ("fail", True)
    (finding,) = examine(database.check_disk, here(folder, retention=Retention(bytes=Bytes(2**70))))
    assert (finding.status, "set retention.bytes to at most" in str(finding.next_step)) == ("warn", True)
    tiny = here(folder, retention=Retention(bytes=Bytes(1)), notices=Notices(disk_free=Bytes(0)))
    assert found(database.check_disk, tiny)[0][0] in ("ok", "warn")


def test_the_disk_holds_an_index_for_each_partition_and_what_receivers_refuse(folder: Path) -> None:
    """Both may be more than the events."""
    (folder / "deliver.db").write_bytes(bytes(3 * 1024**2))
    few, many = Dedup(bytes=Bytes(2**50)), Journal(partitions=1024)
    sizes = [found(database.check_disk, here(folder, dedup=few, journal=each))[0][1] for each in (Journal(), many)]
    assert [size in text for size, text in zip(("1,024 TB", "1,048,576 TB"), sizes, strict=True)] == [True, True]
    assert all("deliver.db, which grows with what receivers refuse, takes 3 MB" in text for text in sizes)


def test_files_that_others_can_read_are_named_with_the_command(folder: Path) -> None:
    """The token, and the folder itself; what is not there is not missed."""
    token = folder / "admin-token"
    token.write_text("x")
    token.chmod(0o644)
    findings = examine(database.check_permissions, here(folder))
    assert [each.next_step for each in findings] == [f"chmod 600 {token}"]
    token.chmod(0o600)
    assert found(database.check_permissions, here(folder))[0][0] == "ok"


def test_commands_to_paste_are_quoted(tmp_path: Path) -> None:
    """A folder may have a space in its name."""
    token = tmp_path / "my data" / "admin-token"
    token.parent.mkdir(mode=0o700)
    token.write_text("x")
    token.chmod(0o644)
    (finding,) = examine(database.check_permissions, here(token.parent))
    assert finding.next_step == f"chmod 600 '{token}'"


def test_a_settings_file_with_a_secret_is_private(folder: Path) -> None:
    """A reference to a secret is none."""
    config = folder / "hookline.yaml"
    config.write_text("x")
    config.chmod(0o644)
    for value, status in (("a-secret", "fail"), ("env:HOOKLINE_SECRET_OPS", "ok")):
        origins = [Origin("notices.secret", value, f"file {config}")]
        at = here(folder)._replace(origins=origins)
        assert [each for each, _ in found(database.check_permissions, at)] == [status]


def test_secrets_that_anybody_can_read_are_worth_a_look(folder: Path, tmp_path: Path) -> None:
    """As long as anybody can get into their folder."""
    secrets = tmp_path / "secrets"
    secrets.mkdir(mode=0o755)
    (secrets / "crm").write_text("x")
    (secrets / "crm").chmod(0o644)
    at = here(folder, secrets=Secrets(dir=str(secrets)))
    assert [
        (each.status, str(secrets / "crm") in each.message) for each in examine(database.check_permissions, at)
    ] == [("warn", True)]
    secrets.chmod(0o700)
    assert found(database.check_permissions, at)[0][0] == "ok"


def test_a_folder_that_cannot_be_made_is_wrong(tmp_path: Path) -> None:
    """One that is only not there yet is not; a file in its place is."""
    assert found(database.check_folder, here(tmp_path / "new" / "data"))[0][0] == "warn"
    (tmp_path / "file").touch()
    assert found(database.check_folder, here(tmp_path / "file"))[0][0] == "fail"


def test_an_old_engine_is_wrong() -> None:
    """3.51.2 still has the fault, 3.51.3 has not."""
    assert machine.sqlite_finding((3, 51, 3)) is None
    old = machine.sqlite_finding((3, 51, 2))
    assert old is not None
    assert (old.status, "3.51.2 can corrupt" in old.message) == ("fail", True)


def test_a_clock_that_was_set_is_told_by_role(folder: Path) -> None:
    """From what the roles measured themselves."""
    messages = [
        message
        for _, message in found(
            machine.check_clock, here(folder, report("deliver", process_clock_shift_seconds=-3600.0))
        )
    ]
    assert "the clock was set back by 3600 s since deliver started" in messages


def test_roles_that_are_away_are_named(folder: Path) -> None:
    """A role that never reported, and one that stopped; none at all is only worth a look."""
    some = report("collect") | report("deliver", fresh=False)
    assert found(running.check_roles, here(folder, some))[0] == (
        "fail",
        "deliver, control do not run (no report for more than 5 s)",
    )
    assert found(running.check_roles, here(folder))[0][0] == "warn"


def test_a_port_in_use_by_another_is_wrong(folder: Path) -> None:
    """Nothing of ours runs, and yet somebody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        at = here(folder, control=Control(listen=f"127.0.0.1:{other.getsockname()[1]}"))
        messages = [message for status, message in found(running.check_ports, at) if status == "fail"]
        assert any(message.startswith("control could not listen on") for message in messages)


@pytest.mark.parametrize("names", [["192.0.2.1", "127.0.0.1"], ["127.0.0.2", "127.0.0.1"]])
def test_a_port_is_looked_at_where_a_role_listens(
    folder: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """At all addresses of a name that the machine has: the first may be one that it has not, as ::1 of localhost, or
    be free where another one is taken."""
    ask = socket.getaddrinfo

    def answer(host: str, *rest: Any, **more: Any) -> list[Any]:
        return [each for name in (names if host == "several" else [host]) for each in ask(name, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    free = found(running.check_ports, here(folder, control=Control(listen="several:0")))
    assert ("ok", "several:0 is free for control") in free
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"several:{other.getsockname()[1]}"
        taken = found(running.check_ports, here(folder, control=Control(listen=address)))
    assert [status for status, message in taken if message.startswith(f"control could not listen on {address}")]


def test_a_role_that_reports_and_does_not_answer_is_wrong(folder: Path) -> None:
    """Its port is closed although it runs."""
    at = here(folder, report("control"), control=Control(listen="127.0.0.1:9"))
    assert any("control does not answer" in message for _, message in found(running.check_ports, at))


def test_postgresql_is_described_or_said_to_be_away(folder: Path, postgres: PostgresServer) -> None:
    """Its version and the room it takes; of files there is nothing to say."""
    assert found(database.check_database, here(folder)) == []
    ((status, message),) = found(database.check_database, here(folder, database=Database(url=postgres.url("postgres"))))
    assert (status, message[:11], message[-4:]) == ("ok", "PostgreSQL ", "0 MB")
    (away,) = examine(database.check_database, here(folder, database=Database(url="postgresql://127.0.0.1:1/hookline")))
    assert (away.status, away.next_step is not None) == ("fail", True)
    assert away.message.startswith("PostgreSQL cannot be reached: ")
    at = here(folder, database=Database(url="postgresql://127.0.0.1:1/hookline"))
    for check in (running.check_notices, configured.check_destinations):
        (unknown,) = examine(check, at)
        assert (unknown.status, unknown.next_step) == ("fail", "Start PostgreSQL, or see what it says.")


def test_a_database_that_cannot_be_used_is_named(folder: Path, postgres: PostgresServer) -> None:
    """Who holds a lock, the right to give, a server that takes no writes; what a role meets; a file that is held."""
    with postgres.database(TEMPLATE) as url:
        at = here(folder, database=Database(url=url))
        poor = here(folder, database=Database(url=postgres.plain_url(url.partition("@/")[2].partition("?")[0])))
        ((status, message),) = found(database.check_database, poor)
        assert (status, "let an administrator run there: GRANT USAGE, CREATE ON SCHEMA" in message) == ("fail", True)
        with closing(connect(Schema(url, "control"))) as holder:
            holder.execute("BEGIN IMMEDIATE")
            holder.execute("LOCK TABLE versions IN ACCESS EXCLUSIVE MODE")
            ((status, message),) = found(database.check_database, at)
            assert (status, "hookline_control.versions is locked by process" in message) == ("fail", True)
        postgres.admin(
            f"ALTER DATABASE {url.partition('@/')[2].partition('?')[0]} SET default_transaction_read_only = on"
        )
        assert {message.partition(" (")[0] for _, message in found(database.check_database, at)} == {
            "The database takes no writes"
        }
    met = report("deliver", hookline_deliver_database_trouble={"kind": {"full": 1}})
    assert found(database.check_database, here(folder, met)) == [
        ("fail", "deliver says that the database has no room left")
    ]
    ensure(folder / "deliver.db", "deliver")
    with closing(connect(folder / "deliver.db")) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert found(database.check_database, here(folder, report("deliver"))) == [
            ("fail", "The database is locked: deliver.db: database is locked")
        ]


def test_open_notices_are_repeated_with_what_to_do(folder: Path) -> None:
    """A critical one is wrong, a warning is worth a look, a resolved one is over."""
    ensure(folder / "control.db", "control")
    log = NoticeLog(folder / "control.db")
    kinds = ("source_silent", "role_down", "disk_nearly_full")
    log.settle([(Found(kind, "x", "y"), 0) for kind in kinds], [], [3], 0, [])
    log.close()
    findings = examine(running.check_notices, here(folder))
    assert [each.status for each in findings] == ["fail", "warn"]
    assert all(each.next_step for each in findings)


def test_the_worst_notices_are_shown_first(folder: Path) -> None:
    """Only some fit in; what is only to be known is as it should be."""
    ensure(folder / "control.db", "control")
    log = NoticeLog(folder / "control.db")
    kinds = ("destination_paused", "source_silent", "role_down")
    log.settle([(Found(kind, "x", "y"), 0) for kind in kinds], [], [], 0, [])
    log.close()
    assert [each.status for each in examine(running.check_notices, here(folder))] == ["fail", "warn", "ok"]


def test_destinations_that_cannot_work_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that is not there, and an address that is refused; a disabled destination does not matter."""
    monkeypatch.delenv("HOOKLINE_SECRET_CRM", raising=False)
    store = Store(folder / "control.db")
    made = [
        destination("crm", secret="env:HOOKLINE_SECRET_CRM"),
        destination("inside", url="http://10.0.0.1/"),
        destination("off", url="http://10.0.0.1/", enabled=False),
        destination("fine"),
    ]
    change(store, source(), *made)
    store.close()
    messages = [message.partition(":")[0] for _, message in found(configured.check_destinations, here(folder))]
    assert messages == ["crm", "inside"]
    opened = here(folder, report("collect"), deliver=Deliver())
    assert "crm" not in str(found(configured.check_destinations, opened))


def test_names_that_end_in_a_line_end_are_named(folder: Path) -> None:
    """Older versions took such ids and write keys; what goes by them goes on, and somebody should replace them."""
    store = Store(folder / "control.db")
    change(store, source(), destination())
    store.close()
    give_line_ends(folder / "control.db")
    findings = found(configured.check_destinations, here(folder))
    assert [message for status, message in findings if status == "warn"] == [
        "the id 'website\\n' ends with a line break, which is no longer allowed",
        "the id 'crm\\n' ends with a line break, which is no longer allowed",
        "the write key 'wk_website\\n' ends with a line break, which is no longer allowed",
    ]


def test_open_breakers_are_known_from_the_report_or_the_last_checkpoint(folder: Path) -> None:
    """Whether deliver runs or not."""
    store = Store(folder / "control.db")
    change(store, source(), destination("crm"), destination("erp"))
    store.close()
    connection = open_deliver(folder / "deliver.db")
    connection.execute("INSERT INTO lanes VALUES (1, 0, 0, 'open', x'00')")
    connection.close()
    assert found(configured.check_destinations, here(folder)) == [
        ("fail", "crm: its breaker is open; events are queued")
    ]
    says = report("deliver", hookline_deliver_breaker_open={"destination": {"erp": 1, "crm": 0}})
    assert found(configured.check_destinations, here(folder, says)) == [
        ("fail", "erp: its breaker is open; events are queued")
    ]


def test_who_paused_a_destination_makes_the_difference(folder: Path) -> None:
    """What a person holds back is not wrong; what Hookline had to pause is."""
    store = Store(folder / "control.db")
    change(store, source(), destination("crm"), destination("erp"))
    store.pause("crm", Pause(since=0), "me", lambda: {0: 0})
    store.pause("erp", Pause(since=0, reason="410 Gone", by="hookline"), "hookline", lambda: {0: 0})
    store.close()
    assert found(configured.check_destinations, here(folder)) == [
        ("warn", "crm: paused, its events are queued"),
        ("fail", "erp: paused, 410 Gone"),
    ]


def test_notices_that_cannot_be_sent_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsigned, unusable, or without the secret that they are to be signed with."""
    monkeypatch.delenv("HOOKLINE_SECRET_OPS", raising=False)
    urls = Urls(("https://ops.example.com/",))
    for notices, status, word in (
        (Notices(webhooks=urls), "warn", "unsigned"),
        (Notices(webhooks=Urls(("ftp://x",)), secret="x"), "fail", "notices.webhooks"),
        (Notices(webhooks=urls, secret="env:HOOKLINE_SECRET_OPS"), "fail", "HOOKLINE_SECRET_OPS"),
    ):
        ((got, message),) = found(configured.check_settings, here(folder, notices=notices))
        assert (got, word in message) == (status, True)


@pytest.mark.parametrize("url", ["smtp://mail?tls=yes", "env:HOOKLINE_SECRET_SMTP"])
def test_a_mail_server_that_cannot_be_used_is_told(folder: Path, url: str) -> None:
    """Its URL is wrong, or the reference to it leads nowhere."""
    smtp = Smtp(url=url, from_="hookline@example.com")
    ((status, message),) = found(configured.check_settings, here(folder, smtp=smtp))
    assert (status, message.startswith("smtp.url: ")) == ("fail", True)


def test_what_cannot_be_looked_at_is_a_finding(folder: Path) -> None:
    """A damaged file does not end the visit."""
    (folder / "control.db").write_bytes(os.urandom(4096))
    ((status, message),) = found(configured.check_destinations, here(folder))
    assert (status, "cannot be checked" in message) == ("fail", True)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("deliver.timeout", Seconds(5.0), "5s"),
        ("deliver.retry_first", Seconds(0.25), "0.25s"),
        ("retention.events", Seconds(2_592_000.0), "30d"),
        ("retention.bytes", Bytes(20 * 1024**3), "20GB"),
        ("notices.disk_free", Bytes(0), "0B"),
        ("deliver.allow_networks", ("10.0.0.0/8", "::1/128"), "10.0.0.0/8, ::1/128"),
        ("control.admin_token", "hk_admin_long-enough-0123", "…0123"),
        ("notices.secret", "env:HOOKLINE_SECRET_OPS", "env:HOOKLINE_SECRET_OPS"),
        ("database.url", "postgresql://me:geheim@db/hookline", "postgresql://me:…@db/hookline"),
        ("smtp.url", "smtp://me:geheim@mail.example:587", "…:587"),
        ("deliver.proxy", "http://me:geheim@proxy.example:3128", "…3128"),
        ("plan.grandfathered", False, "false"),
        ("secrets.dir", None, "none"),
    ],
)
def test_settings_are_written_as_in_a_file_and_secrets_masked(key: str, value: object, text: str) -> None:
    """So that a line can be copied; a secret shows its last four characters."""
    assert written(key, value) == text
    assert "geheim" not in str(shown(key, value))


def test_proxy_variables_are_named_as_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sets them expects deliveries to take that way."""
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    (finding,) = examine(configured.check_settings, here(folder))
    assert (finding.status, finding.message.startswith("HTTPS_PROXY in the environment: not used")) == ("warn", True)


@pytest.mark.parametrize("setting", ["http://no:geheim@127.0.0.1:1", "env:HOOKLINE_SECRET_PROXY"])
def test_a_proxy_that_cannot_be_used_is_named(setting: str, folder: Path) -> None:
    """One that takes no connections, or whose secret is not there: nothing leaves meanwhile."""
    ((status, message),) = found(configured.check_settings, here(folder, deliver=Deliver(proxy=setting)))
    assert (status, message.startswith("deliver.proxy: ")) == ("fail", True)
    assert "geheim" not in message


def test_a_proxy_that_takes_connections_is_well(folder: Path) -> None:
    """It is connected to, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        setting = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        ((status, _),) = found(configured.check_settings, here(folder, deliver=Deliver(proxy=setting)))
    assert status == "ok"


def test_client_certificates_that_end_or_are_gone_are_named(folder: Path) -> None:
    """As those of destinations that cannot be used: which, and what to do."""
    at = here(folder, secrets=Secrets(dir=str(folder)))
    pair = {"client_certificate": "file:crm.pem", "client_key": "file:crm.key"}
    crm = destination("crm")
    with closing(Store(folder / "control.db")) as store:
        change(store, source(), replace(crm, settings=replace(crm.settings, **pair)))
    assert (
        "its client certificate cannot be used: cannot read file:crm.pem"
        in found(configured.check_destinations, at)[0][1]
    )
    certificate, key = Authority(folder).client(ends=DAY)
    (folder / "crm.pem").write_bytes(certificate)
    (folder / "crm.key").write_bytes(key)
    ((status, message),) = [each for each in found(configured.check_destinations, at) if "certificate" in each[1]]
    assert (status, "its client certificate expires at" in message) == ("warn", True)


def test_a_connections_file_is_the_one_the_server_was_started_with(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that lies in this folder is nothing to a server that was started without one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connections.yaml").write_text("sources: []")
    named = tmp_path / "named.yaml"
    named.write_text("sources: []")
    stopped = here(folder)
    launches = [None, *(Launch(settings=stopped.settings, connections=name) for name in (None, str(named)))]
    messages = [found(configured.check_connections, stopped._replace(launch=launch))[0][1] for launch in launches]
    assert [message.partition(" is ")[0] for message in messages] == [
        "connections.yaml",
        "no connections file",
        str(named),
    ]
