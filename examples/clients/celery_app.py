"""Celery tasks that track. Write key and endpoint: HOOKLINE_CLIENT_WRITE_KEY and HOOKLINE_CLIENT_ENDPOINT.

``celery -A celery_app worker``, and ``python celery_app.py 3`` to have three orders shipped. The broker is a folder, so
that this runs without another service; any other will do.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from celery import Celery

import hookline_client
from hookline_client.frameworks.celery import flush_at_worker_end

folder = Path(os.environ.get("BROKER_FOLDER", "broker")).resolve()
folder.mkdir(exist_ok=True)
app = Celery("shop", broker="filesystem://")
app.conf.broker_transport_options = {
    "data_folder_in": str(folder),
    "data_folder_out": str(folder),
    "control_folder": str(folder / "control"),
    "polling_interval": 0.1,
}

hookline_client.init()  # in the worker itself: its processes are forked from it, and each sends what it tracks
flush_at_worker_end()


@app.task(name="shop.ship")
def ship(order: int) -> None:
    """Ship an order and tell Hookline."""
    hookline_client.track(f"customer-{order}", "Order Shipped", {"order": order})


if __name__ == "__main__":
    for order in range(int(sys.argv[1])):
        ship.delay(order)
