"""Receivers that are sick in one of five ways until they are healed by SIGUSR1, in a process of their own.

Runs as ``python bench/isolation/sick_receiver.py WARD_JSON``. Healed, each is the benchmark's receiver with a
ledger of its own: only what it answered with 200 is written down.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
import sys
from enum import StrEnum
from pathlib import Path

import msgspec
import uvloop

from hookline.bench.event import SECRET, Ledger
from hookline.bench.receiver import Receiver

DRIP_SECONDS = 0.5
LINGER_ZERO = struct.pack("ii", 1, 0)
FAILURE = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
DRIP_START = b"HTTP/1.1 200 OK\r\nX-Drip: "
BACKLOG_CONNECTIONS = 1024


class Sickness(StrEnum):
    """What is wrong with a receiver."""

    REFUSING = "refusing"
    RESETTING = "resetting"
    HANGING = "hanging"
    DRIPPING = "dripping"
    FAILING = "answering 500"


class Patient(msgspec.Struct, frozen=True):
    """A receiver: what is wrong with it, its port, the file of its ledger, and the address it listens on."""

    sickness: Sickness
    port: int
    ledger: str
    host: str = "127.0.0.1"


class Ward:
    """All patients of a process; healthy from ``heal`` on."""

    def __init__(self, patients: list[Patient]) -> None:
        self._patients = patients
        self.sick = True

    async def open(self) -> None:
        """Listen for all, those aside that refuse."""
        for patient in self._patients:
            if patient.sickness is not Sickness.REFUSING:
                await self._listen(patient)

    async def heal(self) -> None:
        """Answer 200 from now on; what hangs or drips already stays so until the other side gives up."""
        self.sick = False
        for patient in self._patients:
            if patient.sickness is Sickness.REFUSING:
                await self._listen(patient)

    async def _listen(self, patient: Patient) -> None:
        ledger = Ledger(Path(patient.ledger))
        await asyncio.get_running_loop().create_server(
            lambda: SickReceiver(ledger, self, patient.sickness),
            patient.host,
            patient.port,
            backlog=BACKLOG_CONNECTIONS,
        )


class SickReceiver(Receiver):
    """One connection. Once it has misbehaved it never answers properly any more."""

    __slots__ = ("_misbehaved", "_sickness", "_ward")

    def __init__(self, ledger: Ledger, ward: Ward, sickness: Sickness) -> None:
        super().__init__(ledger, SECRET.encode())
        self._ward = ward
        self._sickness = sickness
        self._misbehaved = False

    def data_received(self, data: bytes) -> None:
        if not self._ward.sick and not self._misbehaved:
            super().data_received(data)
            return
        match self._sickness:
            case Sickness.RESETTING:
                self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_ZERO)
                self._transport.abort()
            case Sickness.FAILING:
                self._transport.write(FAILURE)
                self._transport.close()
            case Sickness.DRIPPING if not self._misbehaved:
                self._transport.write(DRIP_START)
                self._drip()
            case _:
                pass  # hanging
        self._misbehaved = True

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"x")
            asyncio.get_running_loop().call_later(DRIP_SECONDS, self._drip)


async def serve(patients: list[Patient]) -> None:
    """Be sick, be healed, until killed."""
    ward = Ward(patients)
    healed = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, healed.set)
    await ward.open()
    print("open", flush=True)
    await healed.wait()
    await ward.heal()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(msgspec.json.decode(sys.argv[1], type=list[Patient])))
