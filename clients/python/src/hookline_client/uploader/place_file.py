"""How far the upload of a taken log file has come, kept in a small file beside it.

It is replaced as a whole and brought to the disk after every acknowledged batch, so that a run that was ended anywhere,
by a power cut too, is continued where it was and repeats at most the one batch whose answer it did not see.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from hookline_client.trust import check_own, open_own
from hookline_client.uploader.synced import replace_synced, unlink_synced


@dataclass
class Place:
    """Everything before ``offset_bytes`` is done. ``upload`` names the upload: see ``TakenFile``."""

    upload: str
    offset_bytes: int = 0


class PlaceFile:
    """The place on disk at ``path``."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> Place | None:
        """Return the place that was written last, None when there is none that can be read."""
        try:
            with open(open_own(self.path, os.O_RDONLY), "rb") as file:
                place = Place(**json.load(file))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        is_good = isinstance(place.offset_bytes, int) and place.offset_bytes >= 0 and isinstance(place.upload, str)
        return place if is_good else None

    def write(self, place: Place) -> None:
        """Replace the place and return when it is on disk."""
        replace_synced(self.path, json.dumps(asdict(place)).encode())

    def remove(self) -> None:
        """Remove it, if it is there, and return when that is on disk."""
        try:
            check_own(os.lstat(self.path), self.path)
        except FileNotFoundError:
            return
        unlink_synced(self.path)
