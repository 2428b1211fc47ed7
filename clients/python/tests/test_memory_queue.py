"""The queue in memory against a plain list."""

from __future__ import annotations

import random

from hookline_client.batch import BATCH_BYTES_MAX, batch_body
from hookline_client.consumers.memory_queue import MemoryQueue
from hookline_client.messages import MESSAGE_BYTES_MAX
from hookline_client.receipts import Message


def test_it_is_a_bounded_list() -> None:
    """Any order of operations leaves what a list would hold, within both bounds, and positions never repeat."""
    chance = random.Random(4)
    queue, model, removed = MemoryQueue(20, 500), [], 0
    for number in range(5000):
        message: Message = (str(number), b"x" * chance.randrange(1, 60))
        operation = chance.randrange(10)
        if operation < 7:
            waiting = sum(len(body) for _, body in model)
            assert queue.has_room(message) == (len(model) < 20 and (not model or waiting + len(message[1]) <= 500))
            if queue.has_room(message):
                queue.append(message)
                model.append(message)
        elif operation < 8 and model:
            assert queue.drop_oldest() == model.pop(0)
            removed += 1
        elif operation < 9:
            taken = queue.take(5)
            assert taken == model[:5]
            removed += len(taken)
            del model[:5]
        elif number % 50 == 0:
            assert queue.clear() == model
            removed += len(model)
            model.clear()
        assert (len(queue), queue.removed, queue.end) == (len(model), removed, removed + len(model))


def test_a_request_is_never_larger_than_the_service_takes() -> None:
    """By bytes, with everything around the events; the largest events there are still go, some at a time."""
    queue = MemoryQueue(1000, 2**30)
    for number in range(100):
        queue.append((str(number), b"x" * MESSAGE_BYTES_MAX))
    sizes = []
    while batch := queue.take(100):
        sizes.append(len(batch_body([body for _, body in batch])))
    assert sum(sizes) > 100 * MESSAGE_BYTES_MAX
    assert max(sizes) <= BATCH_BYTES_MAX
    assert sizes[0] > BATCH_BYTES_MAX - MESSAGE_BYTES_MAX


def test_a_message_fits_an_empty_queue_whatever_the_bound() -> None:
    """A bound smaller than an event must not stop everything."""
    queue = MemoryQueue(10, 1)
    assert queue.has_room(("a", b"{}"))
    queue.append(("a", b"{}"))
    assert not queue.has_room(("b", b"{}"))


def test_what_was_taken_can_be_put_back() -> None:
    """It is the head again, at its old positions, and takes its room."""
    queue = MemoryQueue(10, 100)
    for number in range(3):
        queue.append((f"m{number}", b"x" * 30))
    taken = queue.take(2)
    queue.put_back(taken)
    assert (queue.removed, queue.end) == (0, 3)
    assert not queue.has_room(("m3", b"x" * 30))
    assert [message_id for message_id, _ in queue.take(10)] == ["m0", "m1", "m2"]
