"""TLS over a socket's transport: verifies always, resumes sessions, and keeps no buffers beside OpenSSL's.

The event loop's own TLS holds a buffer of 256 KiB for each connection. It becomes resident bit by bit as connections
come and go, and there is no access to sessions. Here nothing refers to anything in a circle once a connection is
closed, so that it is freed at once.

A **session** spares the receiver's certificate and the check of it. It is kept per origin, client certificate and
checked address, and only a receiver with the keys of the connection that it comes from can go on with it. That
connection was verified in full, ``VERIFIED_SECONDS_MAX`` ago at the most, and its certificate has not expired since.
"""

from __future__ import annotations

import asyncio
import ssl
from time import monotonic, time
from typing import Any, NamedTuple, cast

READ_BYTES = 16 * 1024
"""The greatest record of TLS: one read takes it whole."""
OVERHEAD_BYTES_MAX = 128 * 1024
"""What TLS may add to one answer. Each record has some 25 bytes around what it says, and costs as much time as one of
thousands. Ordinary answers have a few records; these are 5,000, or as many updates of keys."""
VERIFIED_SECONDS_MAX = 3_600.0
"""From one full check of a receiver's certificate to the next, however often it is connected to meanwhile."""
RENEWED_SECONDS = 300.0
"""A session older than this gives way to the next one: receivers change the keys of their tickets."""
REFUSED_MAX = 2
"""After so many sessions that a receiver did not go on with, one after the other, it is offered none for as long: it
has no keys to do so, or several machines behind its address have each their own."""
SESSIONS_MAX = 8
"""Of one origin, one for each address; the one kept first makes room."""


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return TLS that verifies certificates and host names always; ``ca_file`` adds to the system's authorities."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A receiver chooses the group of DHE: with one of 10,000 bits, the most that OpenSSL takes, one handshake keeps the
    # event loop for 0.9 s. Receivers that know DHE know ECDHE, or at least RSA's own key exchange, as well.
    ciphers = [each["name"] for each in context.get_ciphers() if not each["kea"].startswith("kx-dhe")]
    context.set_ciphers(":".join(ciphers))
    return context


class KeptSession(NamedTuple):
    """Hold a session, and for how long it is good; times are monotonic seconds."""

    session: ssl.SSLSession
    context: ssl.SSLContext
    """What verified it, and what alone resumes it: other authorities or another client certificate have another."""
    verified_until: float
    renew_at: float
    until: float


class Sessions:
    """The TLS sessions of one origin under one client certificate, by the address that was checked."""

    __slots__ = ("_kept", "_look_again_at", "_refused")

    def __init__(self) -> None:
        self._kept: dict[str, KeptSession] = {}
        self._look_again_at = 0.0
        """Until then no new session is kept of a receiver that resumes none: to copy one costs half a handshake."""
        self._refused = 0

    def of(self, address: str, context: ssl.SSLContext) -> KeptSession | None:
        """Return the session to resume, None for a full handshake."""
        kept = self._kept.get(address)
        if kept is not None and (kept.context is not context or monotonic() >= kept.until):
            del self._kept[address]
            return None
        return kept

    def note(self, address: str, tls: ssl.SSLObject, offered: KeptSession | None) -> None:
        """Keep the session of a connection that was answered on: by then TLS 1.3 has sent what it is resumed with."""
        now, resumed = monotonic(), offered if tls.session_reused else None
        if resumed is not None:
            self._refused = 0
        elif offered is not None:
            self._refuse(address, now)
        if now < (self._look_again_at if resumed is None else resumed.renew_at):
            return
        session = tls.session
        if session is None or not (session.has_ticket or (session.id and tls.version() == "TLSv1.2")):
            self._look_again_at = now + RENEWED_SECONDS
            return
        verified_until = resumed.verified_until if resumed else now + min(VERIFIED_SECONDS_MAX, _valid_seconds(tls))
        lasts_seconds = min(session.timeout, session.ticket_lifetime_hint or session.timeout)
        until = min(verified_until, now + lasts_seconds)
        self._kept.pop(address, None)
        if len(self._kept) >= SESSIONS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[address] = KeptSession(session, tls.context, verified_until, now + RENEWED_SECONDS, until)

    def _refuse(self, address: str, now: float) -> None:
        self.forget(address)
        self._refused += 1
        if self._refused >= REFUSED_MAX:
            self._look_again_at = now + RENEWED_SECONDS

    def forget(self, address: str) -> None:
        """Shake hands in full the next time."""
        self._kept.pop(address, None)


def _valid_seconds(tls: ssl.SSLObject) -> float:
    """Return for how long the certificate that the receiver has shown is valid."""
    certificate = tls.getpeercert()
    until = certificate.get("notAfter") if certificate else None
    return ssl.cert_time_to_seconds(until) - time() if isinstance(until, str) else 0.0


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """TLS between a socket's transport, whose protocol it is, and a protocol, whose transport it is.

    ``made`` settles when the handshake has ended, with what went wrong if it has not succeeded. The protocol's
    ``connection_made`` is called before, so that its first bytes leave together with the handshake's last.
    """

    __slots__ = (
        "_address",
        "_error",
        "_incoming",
        "_noted",
        "_offered",
        "_outgoing",
        "_overhead_bytes",
        "_protocol",
        "_sessions",
        "_shaking",
        "_tls",
        "_transport",
        "_unsent",
        "made",
    )

    def __init__(
        self, protocol: asyncio.Protocol, context: ssl.SSLContext, host: str, address: str, sessions: Sessions
    ) -> None:
        super().__init__()
        self.made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._protocol: asyncio.Protocol | None = protocol
        self._address = address
        self._sessions = sessions
        self._offered = sessions.of(address, context)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self._offered.session if self._offered is not None else None
        self._tls: ssl.SSLObject | None = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=host, session=session
        )
        self._transport: asyncio.Transport | None = None
        self._shaking = True
        self._overhead_bytes = 0
        """What came since the last request left, but for what it says."""
        self._noted = False
        """Whether the session was looked at, which is done once."""
        self._unsent = b""
        """What OpenSSL does not take before it has read something (TLS 1.2 shakes hands anew)."""
        self._error: Exception | None = None

    # the socket's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self._shake_hands()

    def data_received(self, data: bytes) -> None:
        """Read what has come, and give the protocol what it says."""
        self._incoming.write(data)
        self._overhead_bytes += len(data)
        if self._shaking:
            self._shake_hands()
        if not self._shaking:
            self._read()

    def eof_received(self) -> None:
        """Tell the protocol that nothing more comes; the transport closes then."""
        if not self._shaking and self._protocol is not None:
            self._protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits, and let go of everything."""
        protocol, was_shaking, error = self._protocol, self._shaking, self._error or error
        self._protocol = self._transport = self._tls = self._error = None
        if was_shaking:
            self._settle(error or ConnectionResetError())
        elif protocol is not None:
            protocol.connection_lost(error)

    def _shake_hands(self) -> None:
        tls, protocol = self._tls, self._protocol
        assert tls is not None
        assert protocol is not None
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the alert that says why
            self._sessions.forget(self._address)
            self._fail(error)
        else:
            self._shaking = False
            protocol.connection_made(self)
            self._flush()
            self._settle(None)

    def _read(self) -> None:
        tls, protocol = self._tls, self._protocol
        if tls is None or protocol is None or self._error is not None:
            return
        more, ended = b"", False
        failed: Exception | None = None
        try:
            data = tls.read(READ_BYTES)
        except ssl.SSLWantReadError:
            data = b""
        except ssl.SSLError as error:
            data, failed = b"", error
        else:
            if not data:
                ended = True
            elif self._incoming.pending or tls.pending():
                more, ended, failed = self._read_on(tls, len(data))
        if data:
            if more:
                data += more
            self._overhead_bytes -= len(data)
            if not self._noted:
                self._noted = True
                self._sessions.note(self._address, tls, self._offered)
                self._offered = None
            protocol.data_received(data)
        if failed is None and self._overhead_bytes > OVERHEAD_BYTES_MAX:
            failed = ConnectionError("too many TLS records for one answer")
        if failed is not None:
            self._flush()
            self._fail(failed)
        elif ended:  # the receiver says that it closes
            protocol.eof_received()
            self.close()
        elif self._unsent or self._outgoing.pending:
            self._send_on()

    def _read_on(self, tls: ssl.SSLObject, before: int) -> tuple[bytes, bool, Exception | None]:
        """Return what follows ``before`` bytes, whether the receiver closes behind it, and what went wrong if anything.

        All of it is one piece for the protocol: to parse each record by itself would cost most of the time.
        """
        incoming, more = self._incoming, bytearray()
        try:
            while incoming.pending or tls.pending():
                record = tls.read(READ_BYTES)
                if not record:
                    return bytes(more), True, None
                more += record
                if self._overhead_bytes - before - len(more) - incoming.pending > OVERHEAD_BYTES_MAX:
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            return bytes(more), False, error
        return bytes(more), False, None

    def _send_on(self) -> None:
        if self._unsent:
            unsent, self._unsent = self._unsent, b""
            self.write(unsent)
        else:
            self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())

    def _fail(self, error: Exception) -> None:
        self._error = error.with_traceback(None)  # its frames know this transport, which knows it
        self.abort()

    def _settle(self, error: Exception | None) -> None:
        if self.made.done():
            return
        if error is None:
            self.made.set_result(None)
        else:
            self.made.set_exception(error)

    # the protocol's transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send it, encrypted."""
        tls = self._tls
        if tls is None or self._error is not None:
            return
        if self._unsent:
            self._unsent += data
            return
        self._overhead_bytes = 0
        sent = 0
        try:
            while sent < len(data):
                sent += tls.write(data[sent:] if sent else data)
        except ssl.SSLWantReadError:
            self._unsent = bytes(data[sent:])
        except ssl.SSLError as error:
            self._fail(error)
            return
        if not self._shaking and (transport := self._transport) is not None:
            transport.write(self._outgoing.read())

    def abort(self) -> None:
        """Close at once; what has not left yet is lost."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close once everything has left."""
        if self._transport is not None:
            self._transport.close()

    def is_closing(self) -> bool:
        """Return whether it closes, or is closed."""
        return self._transport is None or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes, encrypted, have not been handed to the system."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the socket's transport says."""
        return self._transport.get_extra_info(name, default) if self._transport is not None else default
