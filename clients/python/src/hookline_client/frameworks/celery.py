"""Celery: what tasks track leaves before their worker ends.

``flush_at_worker_end(client)`` once, where the Celery application is made. The processes of a worker are forked; a
client may be made before, in the parent, and used by all of them.
"""

from __future__ import annotations

from celery import signals

from hookline_client import module
from hookline_client.client import FLUSH_SECONDS, Client


def flush_at_worker_end(client: Client | None = None, timeout: float = FLUSH_SECONDS) -> None:
    """Flush ``client``, or else that of ``init``, when a process of a worker ends, for ``timeout`` seconds at most.

    Such a process ends without the interpreter's own exit, so nothing else would.
    """

    def flush(**_: object) -> None:
        if client is not None:
            client.flush(timeout)
        else:
            module.flush(timeout)

    name = f"hookline-{id(client)}"
    # Each process of the prefork pool, when it has done its tasks; and the worker itself, which in the other pools is
    # where tasks run.
    signals.worker_process_shutdown.connect(flush, weak=False, dispatch_uid=name)
    signals.worker_shutdown.connect(flush, weak=False, dispatch_uid=name)
