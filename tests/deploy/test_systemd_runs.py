"""The commands of four how-to pages that change a machine, run as they stand there by root under systemd.

They are run-in-production (what it says of systemd), upgrade, add-a-destination-kind, and of the move to Kafka and
PostgreSQL what makes the unit use another data folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from hookline.bench.service import free_port
from tests.deploy.booted import Booted, block
from tests.deploy.files import ROOT
from tests.service.client import basic, bearer, send
from tests.service.harness import Receiver, new_id, wait_until, webhook

HOW_TO = ROOT / "docs" / "how-to"
PRODUCTION = (HOW_TO / "run-in-production.md").read_text()
UPGRADE = (HOW_TO / "upgrade.md").read_text()
MOVE = (HOW_TO / "move-to-kafka-and-postgresql.md").read_text()
KIND = (HOW_TO / "add-a-destination-kind.md").read_text()
DATA = "/var/lib/hookline"
KEY = "wk_of_the_shop"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    """Of collect and of control: those of the page may be taken here."""
    return free_port(), free_port()


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver, ports: tuple[int, int]) -> Iterator[Booted]:
    """A machine on which Hookline was installed and started by the block of the page."""
    collect, control = ports
    settings = {
        "collect": {"listen": f"127.0.0.1:{collect}"},
        "control": {"listen": f"127.0.0.1:{control}"},
        "deliver": {"allow_networks": ["127.0.0.0/8"]},
    }
    connections = {
        "sources": [{"id": "shop", "name": "Shop", "type": "server", "writeKeys": [KEY]}],
        "destinations": [webhook("crm", receiver.url("/crm"), sources=["shop"])],
    }
    with Booted(tmp_path_factory.mktemp("systemd")) as machine:
        install = block(PRODUCTION, "useradd ")
        files, started = re.split(r"(?=^systemctl daemon-reload)", install, maxsplit=1, flags=re.MULTILINE)
        machine.run(files)
        for name, content in (("hookline", settings), ("connections", connections)):
            machine.run(f"cat > /etc/hookline/{name}.yaml <<'.'\n{yaml.safe_dump(content)}.")
        machine.run(started)
        _wait_for(ports)
        yield machine


def test_it_runs_as_the_unit_says(booted: Booted, ports: tuple[int, int], receiver: Receiver) -> None:
    """Every role, as the user of its own, with what the unit takes away; an event reaches its receiver."""
    told = booted.run("systemctl show hookline -p ActiveState -p NRestarts; ps -o user=,args= -U hookline")
    assert "ActiveState=active" in told
    assert "NRestarts=0" in told
    for role in ("collect", "deliver", "control"):
        assert re.search(rf"^hookline .*{role} --supervised", told, re.MULTILINE)
    assert booted.run(f"stat -c '%U %a' {DATA}").splitlines()[-1] == "hookline 700"
    _delivered(ports, receiver)
    assert '"event": "collecting"' in booted.run("journalctl -u hookline --output cat")


def test_its_commands_work_as_its_user(booted: Booted, ports: tuple[int, int]) -> None:
    """The first account gets its link, and nothing is wrong with the installation."""
    told = booted.run(block(PRODUCTION, "runuser -u hookline -- /opt/hookline/bin/hookline users invite"))
    assert re.search(rf"http://\S+:{ports[1]}/join/\S+", told)
    limits = booted.run('cat "/proc/$(systemctl show hookline -P MainPID)/limits"')
    (allowed,) = re.findall(r"^Max open files +\d+ +(\d+)", limits, re.MULTILINE)
    assert f"open files: {int(allowed):,} allowed to the service" in told  # the unit's, where the kernel gives as many
    assert re.search(r"^0 wrong, ", told, re.MULTILINE)


def test_a_backup_brings_back_what_was_there(booted: Booted, ports: tuple[int, int], receiver: Receiver) -> None:
    """Stop, pack, start; what is sent after that is gone again once the backup is restored."""
    kept = _delivered(ports, receiver)
    booted.run(block(PRODUCTION, "systemctl stop hookline\nmkdir -p"))
    _wait_for(ports)
    later = _delivered(ports, receiver)
    booted.run(block(PRODUCTION, "systemctl stop hookline\nmv "))
    _wait_for(ports)
    token = booted.run(f"cat {DATA}/admin-token").split()[-1]
    known = {
        each: send(ports[1], "GET", f"/api/v1/events/{each}", None, bearer(token)).status for each in (kept, later)
    }
    assert known == {kept: 200, later: 404}
    _delivered(ports, receiver)


def test_an_upgrade_goes_on_where_it_was(booted: Booted, ports: tuple[int, int], receiver: Receiver) -> None:
    """The blocks of the page: backup; both lines of pip, the unit, start, and doctor finds nothing wrong."""
    before = _delivered(ports, receiver)
    printed = booted.run(block(UPGRADE, "systemctl stop hookline"))
    assert re.search(r"^backed up: /var/backups/hookline-\S+\.tar\.gz$", printed, re.MULTILINE)
    *upgrade, doctor = block(UPGRADE, "/opt/hookline/bin/pip").splitlines()
    booted.run("\n".join(upgrade))
    _wait_for(ports)
    assert re.search(r"^0 wrong, ", booted.run(doctor), re.MULTILINE)
    token = booted.run(f"cat {DATA}/admin-token").split()[-1]
    assert send(ports[1], "GET", f"/api/v1/events/{before}", None, bearer(token)).status == 200


def test_a_kind_of_ones_own_is_installed(booted: Booted, ports: tuple[int, int]) -> None:
    """By the lines of its page, with the kind of the page, beside the service; a restart has it."""
    shell = f"cd {DATA}/.. && export PATH=/opt/hookline/bin:$PATH\n"
    found = re.findall(r"^```(\w*)\n(.*?)^```$", KIND, re.MULTILINE | re.DOTALL)
    new, tree, check, _, install = (text for language, text in found if not language)
    booted.run(f"{shell}{new}")
    for path in re.findall(r"^    (\w+\.\w+)|^  (\w+\.toml)", tree, re.MULTILINE):
        booted.run(f"{shell}ls acme/{path[1] or f'hookline_acme/{path[0]}'}")
    manifest = next(text for language, text in found if language == "yaml")
    booted.run(f"{shell}cat > acme/hookline_acme/kind.yaml <<'.'\n{manifest}.")
    assert "acme.example" in booted.run(f"{shell}{check}")
    booted.run(f"{shell}{install}\nsystemctl restart hookline")
    _wait_for(ports)
    told = booted.run(f"{shell}runuser -u hookline -- hookline kinds list --data-dir={DATA}")
    assert re.search(r"^acme .* hookline-acme 0", told, re.MULTILINE)


def test_another_data_folder_may_be_written_to(booted: Booted, ports: tuple[int, int], receiver: Receiver) -> None:
    """It is made for the user, and the unit lets it write there; without the drop-in it goes on where it was."""
    before = _delivered(ports, receiver)
    folder, drop_in = block(MOVE, "install -d"), block(MOVE, "mkdir -p /etc/systemd/system/hookline.service.d")
    booted.run(f"{folder}\nrunuser -u hookline -- touch /var/lib/hookline-cluster/of-a-move\n{drop_in}")
    booted.run(f"cp /etc/hookline/hookline.yaml cluster.yaml\n{block(MOVE, 'mv /etc/hookline/hookline.yaml')}")
    _wait_for(ports)
    _delivered(ports, receiver)
    assert "control.db" in booted.run("ls /var/lib/hookline-cluster")
    booted.run(
        "mv /etc/hookline/before-move.yaml /etc/hookline/hookline.yaml; rm cluster.yaml\n"
        "rm /etc/systemd/system/hookline.service.d/data.conf; systemctl daemon-reload; systemctl restart hookline"
    )
    _wait_for(ports)
    token = booted.run(f"cat {DATA}/admin-token").split()[-1]
    assert send(ports[1], "GET", f"/api/v1/events/{before}", None, bearer(token)).status == 200


def test_settings_that_cannot_be_used_start_nothing_again(booted: Booted) -> None:
    """The unit ends with 2 and stays down; with the old ones it starts."""
    booted.run(
        "cp /etc/hookline/hookline.yaml /tmp/good; echo 'collect: {listen: nowhere}' > /etc/hookline/hookline.yaml"
    )
    booted.run("systemctl restart hookline || true")
    wait_until(lambda: "failed" in booted.run("systemctl show hookline -p ActiveState"), what="the unit has failed")
    assert "ExecMainStatus=2" in booted.run("systemctl show hookline -p ExecMainStatus")
    booted.run("cp /tmp/good /etc/hookline/hookline.yaml; systemctl start hookline")


def _wait_for(ports: tuple[int, int]) -> None:
    wait_until(lambda: _answers(ports[0], "/readyz") and _answers(ports[1], "/readyz?all"), what="the service is ready")


def _answers(port: int, path: str) -> bool:
    try:
        return send(port, "GET", path).status == 200
    except OSError:
        return False


def _delivered(ports: tuple[int, int], receiver: Receiver) -> str:
    """Send an event, wait until the receiver has it, and return its messageId."""
    message_id = new_id()
    event = {"userId": "u1", "event": "Order", "messageId": message_id}
    assert send(ports[0], "POST", "/v1/track", event, basic(KEY)).status == 200
    receiver.wait_for(message_id)
    return message_id
