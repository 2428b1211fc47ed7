"""The request that carries a batch, the same whoever sends it: address, headers and body."""

from __future__ import annotations

from collections.abc import Sequence
from gzip import compress

from hookline_client.batch import batch_body
from hookline_client.http_transport import GZIP_LEVEL, authorization
from hookline_client.options import Options
from hookline_client.receipts import Message
from hookline_client.version import VERSION


class BatchRequest:
    """What the options say about every request; ``body`` makes that of one."""

    def __init__(self, options: Options) -> None:
        self.endpoint = options.address
        scheme, usual_port = ("https", 443) if self.endpoint.tls else ("http", 80)
        host = f"[{self.endpoint.host}]" if ":" in self.endpoint.host else self.endpoint.host
        self.host = host if self.endpoint.port == usual_port else f"{host}:{self.endpoint.port}"
        self.path = f"{self.endpoint.path}/v1/batch"
        self.url = f"{scheme}://{self.host}{self.path}"
        self.headers = {
            "Authorization": authorization(options.write_key),
            "Content-Type": "application/json",
            "User-Agent": f"hookline-python/{VERSION}",
            **({"Content-Encoding": "gzip"} if options.gzip else {}),
        }
        self._gzip = options.gzip

    def body(self, batch: Sequence[Message]) -> bytes:
        """The body with these messages, compressed when the options say so."""
        body = batch_body([encoded for _, encoded in batch])
        return compress(body, GZIP_LEVEL, mtime=0) if self._gzip else body
