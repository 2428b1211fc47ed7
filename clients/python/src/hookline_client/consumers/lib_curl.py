"""PHP's usual consumer: calls wait in memory and leave in batches of ``batch_size`` through libcurl.

What waits also leaves after ``flush_after`` seconds, with ``flush``, and at the end of the process. A request that had
no answer, or one that says so, is tried again, and one that was too large (413) goes in halves; nothing else of the
answer is looked at, unless ``debug``.
"""

from __future__ import annotations

from hookline_client.consumers.background import Background
from hookline_client.consumers.curl_transport import CurlTransport
from hookline_client.ledger import Ledger
from hookline_client.options import Options


class LibCurl(Background):
    """The queue and the thread of ``background``, and libcurl as the way out."""

    def __init__(self, options: Options, ledger: Ledger) -> None:
        transport = options.transport or CurlTransport(options)
        super().__init__(options._replace(flush_at=options.batch_size, transport=transport), ledger)
