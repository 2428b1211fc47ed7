"""Foresee what retention takes of a topic, by asking brokers where it begins and when single events were received."""

from __future__ import annotations

from collections.abc import Callable

from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.record import journal_ms
from hookline.settings import Retention

ASK_SECONDS = 5.0
REST_SECONDS = 5.0
LOOKUPS_MAX = 200
"""Events looked at in one partition at a time; those behind them are taken to go with the last."""
YOUNG_SHARE = 0.9
"""An oldest event younger than this share of the age at which events are dropped was left by dropping for bytes."""


class KafkaForecast:
    """Asks brokers, where something waits: where the partitions begin, and when single events were received."""

    def __init__(self, open_reader: Callable[[], KafkaReader], limits: Retention) -> None:
        self._open_reader = open_reader
        self._by_age_ms = int(limits.events * 1000)
        self._reader: KafkaReader | None = None
        self._starts: dict[int, int] = {}
        """Where each partition began at the last look."""
        self._by_bytes_ms: dict[int, int] = {}
        """By partition: how old events became before they were dropped for their bytes."""

    def look(self, now_ms: int, until_ms: int) -> Callable[[int, int], int | None]:
        """As ``RetentionForecast``; raise JournalAway while brokers do not answer."""
        if self._reader is None:
            self._reader = self._open_reader()
            self._reader.limit_wait(ASK_SECONDS, REST_SECONDS)
        reader = self._reader
        kept_ms = {partition: self._kept_ms(reader, partition, now_ms) for partition in reader.partitions()}
        last: dict[int, int] = {}
        looked = dict.fromkeys(kept_ms, 0)

        def drop_ms(partition: int, offset: int) -> int | None:
            if partition not in kept_ms or last.get(partition, 0) > until_ms:
                return None  # those behind one that stays stay too
            if looked[partition] < LOOKUPS_MAX:
                looked[partition] += 1
                received_ms = _received_ms(reader, partition, offset)
                if received_ms is None:
                    return None
                last[partition] = received_ms + kept_ms[partition]
            return last.get(partition)

        return drop_ms

    def close(self) -> None:
        """Let go of connections; idempotent."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _kept_ms(self, reader: KafkaReader, partition: int, now_ms: int) -> int:
        start = reader.start(partition)
        if start > self._starts.setdefault(partition, start):
            self._starts[partition] = start
            received_ms = _received_ms(reader, partition, start)
            if received_ms is not None:
                age_ms = now_ms - received_ms
                if age_ms < self._by_age_ms * YOUNG_SHARE:
                    self._by_bytes_ms[partition] = age_ms
                else:
                    self._by_bytes_ms.pop(partition, None)
        return min(self._by_age_ms, self._by_bytes_ms.get(partition, self._by_age_ms))


def _received_ms(reader: KafkaReader, partition: int, offset: int) -> int | None:
    record = reader.get(partition, offset)
    return None if record is None else journal_ms(record)
