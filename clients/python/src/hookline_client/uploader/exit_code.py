"""How ``hookline-upload`` ends: 0, 2 as every command, and the codes of ``sysexits.h`` that schedulers know."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a scheduler needs to know. Whatever the code, nothing is lost that was in the file."""

    DONE = 0
    """All was acknowledged, or there was nothing to do."""
    USAGE = 2
    """The arguments cannot be used."""
    SET_ASIDE = 65
    """All was acknowledged but for lines that are in the side file now: somebody should look at them."""
    DISK = 74
    """A file cannot be read, written or renamed, or somebody else may have put it there."""
    LATER = 75
    """The service cannot be reached or is busy, or another uploader is at this file: the next run goes on."""
    REFUSED = 77
    """The service refuses the write key, or what answers at the endpoint is not Hookline. Repeating does not help."""
