"""One job, post a signed event, written for each of the job queues Hookline is compared with.

Imports nothing of Hookline: it is copied into a folder beside another environment, where ``PEER`` names the queue, and
runs there as ``python peer_jobs.py JOBS AHEAD`` to put jobs in, at most AHEAD before the workers (0: all), and as the
queue's own worker to deliver them.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import redis

PEER = os.environ["PEER"]
REDIS = os.environ["PEER_REDIS"]
RECEIVER = os.environ["PEER_RECEIVER"]
SECRET = os.environ["PEER_SECRET"].encode()
EVENT = os.environ["PEER_EVENT"]
"""The event as JSON, with ``%010d`` where its number goes."""
ASYNC_JOBS_MAX = 200
logging.disable(logging.INFO)  # in arq's favour, which logs every job
POLL_SECONDS = 0.01
PUT_AT_ONCE = 50
QUEUES = {"dramatiq": "dramatiq:default", "celery": "celery", "arq": "arq:queue"}
"""The key in Redis under which each keeps what waits."""


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
    import arq
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


async def fill_async(numbers: Iterable[int]) -> None:
    """Put the jobs into arq's queue, several at once as a server under load does."""
    import asyncio

    pool = await arq.create_pool(arq.connections.RedisSettings.from_dsn(REDIS))
    while chunk := list(itertools.islice(numbers, PUT_AT_ONCE)):
        await asyncio.gather(*(pool.enqueue_job("deliver_async", number, EVENT % number) for number in chunk))
    await pool.aclose()


def fill(numbers: Iterable[int]) -> None:
    """Put the jobs into the queue."""
    if PEER == "arq":
        import asyncio

        asyncio.run(fill_async(numbers))
        return
    enqueue = job.send if PEER == "dramatiq" else job.delay
    for number in numbers:
        enqueue(number, EVENT % number)


def allowed(jobs: int, ahead: int) -> Iterator[int]:
    """Number after number, as the queue has room for them."""
    connection = redis.Redis.from_url(REDIS)
    length = connection.zcard if PEER == "arq" else connection.llen
    for number in range(1, jobs + 1):
        while ahead and number % PUT_AT_ONCE == 0 and length(QUEUES[PEER]) >= ahead:
            time.sleep(POLL_SECONDS / 10)  # neither queue says when it has room
        yield number


if __name__ == "__main__":
    fill(allowed(int(sys.argv[1]), int(sys.argv[2])))
