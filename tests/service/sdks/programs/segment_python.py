"""A program of somebody who uses segment-analytics-python: only the host is not the default."""

import os
import sys
from datetime import UTC, datetime

from segment.analytics.client import Client

errors = []
analytics = Client(os.environ["WRITE_KEY"], host=os.environ["HOST"], on_error=lambda error, items: errors.append(error))
at = datetime(2026, 11, 20, 7, 0, 0, 123000, tzinfo=UTC)
analytics.identify("u1", {"plan": "pro"}, timestamp=at)
analytics.track("u1", "Order Completed", {"total": 12.5, "name": "Café 😀"}, timestamp=at)
analytics.page("u1", "Docs", "Home", {"url": "https://x.test/"}, timestamp=at)
analytics.screen("u1", "App", "Main", {"tab": 2}, timestamp=at)
analytics.group("u1", "g1", {"company": "Acme"}, timestamp=at)
analytics.alias("old", "u1", timestamp=at)
analytics.flush()
analytics.join()
sys.exit(f"errors: {errors}" if errors else 0)
