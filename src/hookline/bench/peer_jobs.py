"""One job, post a signed event, written for each of the job queues Hookline is compared with.

Imports nothing of Hookline: it is copied into a folder beside another environment, where ``PEER`` names the queue, and
runs there as ``python peer_jobs.py FIRST LAST`` to fill it and as the queue's own worker to empty it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import sys
from typing import Any

PEER = os.environ["PEER"]
REDIS = os.environ["PEER_REDIS"]
RECEIVER = os.environ["PEER_RECEIVER"]
SECRET = os.environ["PEER_SECRET"].encode()
EVENT = os.environ["PEER_EVENT"]
"""The event as JSON, with ``%010d`` where its number goes."""
ASYNC_JOBS_MAX = 200
logging.disable(logging.INFO)  # in arq's favour, which logs every job
POLL_SECONDS = 0.01


def headers(number: int, body: bytes) -> dict[str, str]:
    """What Hookline sends too."""
    return {
        "User-Agent": "Hookline/1.0",
        "Content-Type": "application/json",
        "X-Message-Id": f"bench-{number:010d}",
        "X-Signature": hmac.new(SECRET, body, hashlib.sha1).hexdigest(),
    }


_sessions: list[Any] = []


def deliver(number: int, event: str) -> None:
    """Post one event over a connection that is kept; anything but a 2xx raises, so that the queue tries again."""
    if not _sessions:
        import requests

        _sessions.append(requests.Session())
    body = event.encode()
    _sessions[0].post(RECEIVER, data=body, headers=headers(number, body), timeout=5).raise_for_status()


if PEER == "dramatiq":
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    dramatiq.set_broker(RedisBroker(url=REDIS))
    job = dramatiq.actor(deliver)

elif PEER == "celery":
    import celery

    app = celery.Celery("peer_jobs", broker=REDIS)
    # Acknowledged when done, as the others do it: a job must not be lost with its worker.
    app.conf.update(task_ignore_result=True, task_acks_late=True, worker_prefetch_multiplier=64)
    job = app.task(deliver, name="deliver")

else:
    import arq.connections

    async def deliver_async(context: dict[str, Any], number: int, event: str) -> None:
        """The same in a coroutine."""
        if "session" not in context:
            import aiohttp

            context["session"] = aiohttp.ClientSession()
        body = event.encode()
        async with context["session"].post(RECEIVER, data=body, headers=headers(number, body)) as answer:
            answer.raise_for_status()

    class WorkerSettings:
        """Read by arq's worker; the waits between looks at the queue are made short in its favour."""

        redis_settings = arq.connections.RedisSettings.from_dsn(REDIS)
        functions = (deliver_async,)
        max_jobs = ASYNC_JOBS_MAX
        queue_read_limit = ASYNC_JOBS_MAX
        poll_delay = POLL_SECONDS
        keep_result = 0


async def fill_async(first: int, last: int) -> None:
    """Put the jobs into arq's queue."""
    import arq
    import arq.connections

    pool = await arq.create_pool(arq.connections.RedisSettings.from_dsn(REDIS))
    for number in range(first, last + 1):
        await pool.enqueue_job("deliver_async", number, EVENT % number)
    await pool.aclose()


def fill(first: int, last: int) -> None:
    """Put the jobs into the queue."""
    if PEER == "arq":
        import asyncio

        asyncio.run(fill_async(first, last))
        return
    enqueue = job.send if PEER == "dramatiq" else job.delay
    for number in range(first, last + 1):
        enqueue(number, EVENT % number)


if __name__ == "__main__":
    fill(int(sys.argv[1]), int(sys.argv[2]))
