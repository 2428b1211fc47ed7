"""Notices about what sinks say of themselves: tables, columns and the like that they made, or could not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from hookline.database.location import DatabaseLocation
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.outcomes.reader import DeliverReader, SinkNews

NEWS_AGE_MS_MAX = 3_600_000
"""What sinks said longer before control started is history."""
NEWS_QUIET_MS = 5_000
"""A source that is new makes tables for some seconds: they are told together, once none has come for so long."""
NEWS_WAIT_MS_MAX = 60_000
NEWS_KEPT_MAX = 100
"""Sentences of one destination that wait to be told; the rest is only counted."""
SENTENCES_SHOWN_MAX = 3
SENTENCES_CHARACTERS_MAX = 420
"""Of the detail of a notice, which is cut at 500; so much is left for saying how many more there are."""


class SchemaChanges:
    """Reads only rows that are new since the last look. What waits to be told is forgotten when control ends."""

    kinds = ("destination_schema_changed",)

    def __init__(self, location: DatabaseLocation, last_opened_ms: Callable[[], int | None]) -> None:
        """``last_opened_ms`` says when the newest notice of the kind was opened, so that nothing is told twice."""
        self._deliver = DeliverReader(location)
        self._last_opened_ms = last_opened_ms
        self._last_id = 0
        self._since_ms: int | None = None
        self._untold: defaultdict[str, _Untold] = defaultdict(_Untold)

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return one for each enabled destination whose sink had news, and has none just now."""
        if self._since_ms is None:
            self._since_ms = max(moment.now_ms - NEWS_AGE_MS_MAX, self._last_opened_ms() or 0)
        for news in self._deliver.sink_news(self._last_id):
            self._last_id = news.id
            if news.at_ms > self._since_ms and news.destination in moment.enabled:
                self._untold[news.destination].add(news, moment.now_ms)
        due = [id for id, untold in self._untold.items() if untold.is_due(moment)]
        return [self._finding(id, self._untold.pop(id)) for id in sorted(due)]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._deliver.close()

    def _finding(self, id: str, untold: _Untold) -> Finding:
        return Finding(self.kinds[0], id, untold.detail(), untold.count)


class _Untold:
    """Hold what a destination's sink has said since the last notice of it."""

    def __init__(self) -> None:
        self.first_ms = 0
        self.last_ms = 0
        self.count = 0
        self.sentences: list[str] = []

    def add(self, news: SinkNews, now_ms: int) -> None:
        self.first_ms = self.first_ms or now_ms
        self.last_ms = now_ms
        self.count += 1
        if len(self.sentences) < NEWS_KEPT_MAX and news.sentence not in self.sentences:
            self.sentences.append(news.sentence)

    def is_due(self, moment: Moment) -> bool:
        return moment.has_lasted(self.last_ms, NEWS_QUIET_MS) or moment.has_lasted(self.first_ms, NEWS_WAIT_MS_MAX)

    def detail(self) -> str:
        shown: list[str] = []
        for sentence in self.sentences[:SENTENCES_SHOWN_MAX]:
            if shown and len(" ".join([*shown, sentence])) > SENTENCES_CHARACTERS_MAX:
                break
            shown.append(_cut(sentence))
        left = self.count - len(shown)
        return " ".join([*shown, *([f"And {left} more; the log of deliver has them all."] if left else [])])


def _cut(sentence: str) -> str:
    most = SENTENCES_CHARACTERS_MAX
    return sentence if len(sentence) <= most else f"{sentence[: most - 1]}…"
