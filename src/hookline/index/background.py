"""One thread for what the index must wait for on the disk, so that the event loop need not."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import ParamSpec

P = ParamSpec("P")

Step = Future[None] | None
"""What a step of long work yields: None after working, or the future it waits for."""

_threads: list[ThreadPoolExecutor] = []


def in_background(function: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> Generator[Step, None, None]:
    """Run a function that waits for the disk; yield its future until it is done, then raise what it raised."""
    if not _threads:
        _threads.append(ThreadPoolExecutor(1, thread_name_prefix="index"))
    future = _threads[0].submit(function, *args, **kwargs)
    try:
        while not future.done():
            yield future
    finally:  # nothing writes to the folder any more once the work was given up
        if not future.cancel():
            wait([future])
    future.result()
