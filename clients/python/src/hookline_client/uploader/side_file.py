"""Keeps the lines that cannot be uploaded, each with the reason, in a file beside the log until a person looks at it.

One JSON object per line: ``reason`` (a code), ``message``, ``upload`` and ``offset`` (which upload, where in its file),
and the line itself as ``line``, or as ``base64`` when it is not UTF-8. A line is kept once, however often its upload is
begun anew; whoever has looked may remove the file at any time.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence

from hookline_client.line_reader import Line
from hookline_client.trust import open_own
from hookline_client.uploader.synced import sync_folder


class SideFile:
    """The side file at ``path`` for the upload named ``upload``. It is made when there is a first line to keep."""

    def __init__(self, path: str, upload: str) -> None:
        self.path = path
        self._upload = upload
        self._kept: set[int] | None = None

    def keep(self, lines: Sequence[tuple[Line, str, str]]) -> None:
        """Add lines, each with reason and message, unless this upload did before; on disk when it returns."""
        if not lines:
            return
        if self._kept is None:
            self._kept = self._read_kept()
        fresh = [kept for kept in lines if kept[0].offset_bytes not in self._kept]
        if fresh:
            self._append(b"".join(self._entry(*kept) for kept in fresh))
            self._kept.update(line.offset_bytes for line, _, _ in fresh)

    def _entry(self, line: Line, reason: str, message: str) -> bytes:
        entry: dict[str, object] = {"reason": reason, "message": message}
        entry |= {"upload": self._upload, "offset": line.offset_bytes, **_readable(line.data)}
        return json.dumps(entry, ensure_ascii=False).encode() + b"\n"

    def _append(self, data: bytes) -> None:
        file = open_own(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size_bytes = os.fstat(file).st_size
            if size_bytes and os.pread(file, 1, size_bytes - 1) != b"\n":
                data = b"\n" + data  # a run that was killed left half an entry
            try:
                while data:
                    data = data[os.write(file, data) :]
            except OSError:
                os.ftruncate(file, size_bytes)
                raise
            os.fsync(file)
        finally:
            os.close(file)
        if size_bytes == 0:
            sync_folder(self.path)

    def _read_kept(self) -> set[int]:
        kept: set[int] = set()
        try:
            with open(open_own(self.path, os.O_RDONLY), "rb") as file:
                for entry in map(_parsed, file):
                    offset = entry.get("offset")
                    if entry.get("upload") == self._upload and isinstance(offset, int):
                        kept.add(offset)
        except FileNotFoundError:
            pass
        return kept


def _parsed(data: bytes) -> dict[str, object]:
    try:
        entry = json.loads(data)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _readable(data: bytes) -> dict[str, str]:
    try:
        return {"line": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
