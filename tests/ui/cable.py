"""The network between browser and service, as a thing one can cut: a TCP relay on a port of its own."""

from __future__ import annotations

import socket
import threading


class Cable:
    """A context manager; ``cut`` ends every connection and refuses new ones until ``mend``."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._whole = True

    def __enter__(self) -> Cable:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """Interrupt everything."""
        self._whole = False
        for end in list(self._open):
            _hang_up(end)

    def mend(self) -> None:
        """Let connections through again."""
        self._whole = True

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if not self._whole:
                near.close()
                continue
            far = socket.create_connection(self._target)
            self._open |= {near, far}
            if not self._whole:  # cut meanwhile: `cut` may have looked at what is open before
                _hang_up(near)
                _hang_up(far)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._relay, args=(source, sink), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
        except OSError:
            pass
        _hang_up(source)
        _hang_up(sink)
        self._open -= {source, sink}


def _hang_up(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
