"""The sick receivers, as the process they are: each fails in its own way, and answers once it is healed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from bench.isolation import sick_receiver
from bench.isolation.sick_receiver import Patient, Sickness

from hookline.bench.event import Ledger, Requests
from hookline.bench.receiver import DUPLICATES, RECEIVED
from hookline.bench.service import free_port
from tests.service.waiting import wait_until

SILENT_SECONDS = 0.3


@dataclass
class Ward:
    """The running process, the ports and the ledgers."""

    process: subprocess.Popen[bytes]
    patients: dict[Sickness, Patient]

    def ledger(self, sickness: Sickness) -> Ledger:
        """What a patient wrote down."""
        return Ledger(Path(self.patients[sickness].ledger))


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    """All five kinds, sick."""
    folder = tmp_path_factory.mktemp("ward")
    patients = {kind: Patient(kind, free_port(), str(folder / kind.name)) for kind in Sickness}
    for patient in patients.values():
        Ledger(Path(patient.ledger), 100)
    spec = msgspec.json.encode(list(patients.values())).decode()
    command = [sys.executable, "-P", sick_receiver.__file__, spec]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield Ward(process, patients)
        process.kill()


def answer(ward: Ward, sickness: Sickness) -> bytes:
    """What comes back first for one event; empty when nothing does in a while."""
    request = (
        Requests("localhost", 0)
        .request(7)
        .replace(b"Content-Type:", b"X-Message-Id: bench-0000000007\r\nContent-Type:")
    )
    with socket.create_connection(("127.0.0.1", ward.patients[sickness].port), timeout=10) as connection:
        connection.sendall(request)
        if sickness is Sickness.HANGING and ward.ledger(sickness).counters[RECEIVED] == 0:
            connection.settimeout(SILENT_SECONDS)
        try:
            return connection.recv(65_536)
        except TimeoutError:
            return b""


def test_each_is_sick_in_its_own_way_and_all_heal(ward: Ward) -> None:
    """Sick, none takes an event; healed, each takes it and writes it down, and writes down a repetition."""
    with pytest.raises(ConnectionRefusedError):
        answer(ward, Sickness.REFUSING)
    with pytest.raises(ConnectionResetError):
        answer(ward, Sickness.RESETTING)
    assert answer(ward, Sickness.DRIPPING).startswith(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    assert answer(ward, Sickness.FAILING).startswith(b"HTTP/1.1 500 ")
    assert all(not ward.ledger(kind).counters[RECEIVED] for kind in Sickness)
    assert silent(ward)
    ward.process.send_signal(signal.SIGUSR1)
    for kind in Sickness:
        wait_until(lambda kind=kind: takes(ward, kind), what=f"{kind} healed")
        assert answer(ward, kind).startswith(b"HTTP/1.1 200 OK")
        assert ward.ledger(kind).times[7] > 0
        assert ward.ledger(kind).counters[DUPLICATES] >= 1


def silent(ward: Ward) -> bool:
    """The hanging one says nothing."""
    return answer(ward, Sickness.HANGING) == b""


def takes(ward: Ward, kind: Sickness) -> bool:
    """It answers 200 in full, not only its beginning."""
    try:
        return answer(ward, kind).startswith(b"HTTP/1.1 200 OK\r\nContent-Length")
    except OSError:
        return False
