"""A real S3-compatible server: versitygw, which keeps a bucket in a folder. It can be killed and started again."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from tests.docs.pages import ROOT
from tests.service.harness import free_port, wait_until

PROGRAM = ROOT / "build" / "s3" / "versitygw"
BUCKET = "acme-events"
ACCESS_KEY, SECRET_KEY = "access", "a-secret-key"


class S3Server:
    """The server on a folder; a context manager."""

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        self.folder = folder
        self._certificate = certificate
        """Certificate and key in one file, for https."""
        self.bucket = folder / BUCKET
        self.bucket.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> S3Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill9()

    @property
    def settings(self) -> dict[str, object]:
        """Return what a destination needs to write there."""
        return {
            "where": "s3",
            "endpoint": f"http://127.0.0.1:{self.port}",
            "bucket": BUCKET,
            "region": "us-east-1",
            "accessKey": ACCESS_KEY,
            "secretKey": SECRET_KEY,
            "prefix": "events",
        }

    def start(self) -> None:
        """Start it, and wait until it listens."""
        address = f"127.0.0.1:{self.port}"
        command = [str(PROGRAM), "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", address]
        if self._certificate is not None:
            command += ["--cert", str(self._certificate), "--key", str(self._certificate)]
        command.append("posix")
        with (self.folder.parent / "s3.log").open("ab") as log:
            self._process = subprocess.Popen([*command, str(self.folder)], stdout=log, stderr=log)
        wait_until(self._listens, what="the S3 server listens")

    def kill9(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True
