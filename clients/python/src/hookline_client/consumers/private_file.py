"""A file without a name, for what another process of ours must read and nobody else may see."""

from __future__ import annotations

import os
import tempfile


def private_file(content: bytes) -> int:
    """Return the descriptor of a file that holds ``content``, placed at its beginning.

    It is in memory where the system can do that, and otherwise in a file of mode 0600 that is unlinked already. The
    caller closes it. OSError when there is no room or no descriptor.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("hookline")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
