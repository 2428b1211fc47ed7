"""Batches through libcurl: the transport of the ``lib_curl`` consumer. Needs pycurl (extra ``[curl]``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pycurl

from hookline_client.answer import Answer
from hookline_client.consumers.batch_request import BatchRequest
from hookline_client.consumers.curl_answer import answer_of, no_answer
from hookline_client.http_transport import ANSWER_BYTES_MAX
from hookline_client.options import Options
from hookline_client.receipts import Message


class CurlTransport:
    """One handle of libcurl with its kept-alive connection.

    What the service answers is passed over, unless ``debug``, or unless it says to try again.
    """

    def __init__(self, options: Options) -> None:
        self._request = BatchRequest(options)
        self._timeout_seconds = options.timeout_seconds
        self._ca_file = options.ca_file
        self._reads_answers = options.debug
        self._handle: Any = None
        self._sockets: set[int] = set()
        self._closed = False

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Send one batch; a fault of the network is an answer with status 0 and a code."""
        seconds = self._timeout_seconds if timeout_seconds is None else min(timeout_seconds, self._timeout_seconds)
        head, body = bytearray(), bytearray()
        try:
            handle = self._handle = self._handle or self._open()
            handle.setopt(pycurl.TIMEOUT_MS, max(1, round(seconds * 1000)))
            handle.setopt(pycurl.POSTFIELDS, self._request.body(batch))
            handle.setopt(pycurl.HEADERFUNCTION, lambda data: _keep(head, data))
            handle.setopt(pycurl.WRITEFUNCTION, lambda data: _keep(body, data))
            handle.perform()
            status = int(handle.getinfo(pycurl.RESPONSE_CODE))
        except pycurl.error as error:
            number, text = (*error.args, "")[:2]
            return no_answer(number if isinstance(number, int) else 0, str(text))
        return answer_of(status, bytes(head), bytes(body), self._reads_answers)

    def close(self) -> None:
        """Close the connection. A ``send`` that waits in another thread ends within a second."""
        self._closed = True
        handle = self._handle
        if handle is not None:
            try:
                handle.close()
            except pycurl.error:  # in use by that other thread
                return
            self._handle = None

    def forked(self) -> None:
        """Forget the handle for good: to free it would say goodbye to the service in the parent's name."""
        if self._handle is not None:
            _silence(self._sockets)
            _keep_forever(self._handle)
        self._handle = None
        self._sockets = set()

    def _open(self) -> Any:
        handle = pycurl.Curl()
        handle.setopt(pycurl.URL, self._request.url)
        # "Expect:" keeps libcurl from waiting for a 100 Continue.
        headers = [f"{name}: {value}" for name, value in self._request.headers.items()]
        handle.setopt(pycurl.HTTPHEADER, [*headers, "Expect:"])
        handle.setopt(pycurl.POST, 1)
        handle.setopt(pycurl.NOSIGNAL, 1)  # signals belong to the application
        handle.setopt(pycurl.NOPROGRESS, 0)
        handle.setopt(pycurl.XFERINFOFUNCTION, lambda *_: self._closed)
        handle.setopt(pycurl.SOCKOPTFUNCTION, self._note_socket)
        handle.setopt(pycurl.CLOSESOCKETFUNCTION, self._close_socket)
        for option, path in _authorities(self._ca_file):
            handle.setopt(option, path)
        return handle

    def _note_socket(self, descriptor: int, _purpose: int) -> int:
        self._sockets.add(descriptor)
        return 0

    def _close_socket(self, descriptor: int) -> int:
        self._sockets.discard(descriptor)
        os.close(descriptor)
        return 0


def _keep(received: bytearray, data: bytes) -> None:
    if len(received) < ANSWER_BYTES_MAX:
        received.extend(data)


def _authorities(ca_file: str | None) -> list[tuple[int, str]]:
    # The wheels of pycurl bring a libcurl that may look for certificates where this system has none.
    if ca_file is not None:
        return [(pycurl.CAINFO, ca_file)]
    import ssl

    known = ssl.get_default_verify_paths()
    return [(option, path) for option, path in ((pycurl.CAINFO, known.cafile), (pycurl.CAPATH, known.capath)) if path]


def _silence(descriptors: set[int]) -> None:
    """Let this process's copies of the parent's connections lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)


def _keep_forever(handle: object) -> None:
    """A handle that another thread of the parent was using must not be freed even when the interpreter ends."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
