"""An AWS Lambda function. Write key and endpoint: HOOKLINE_CLIENT_WRITE_KEY and HOOKLINE_CLIENT_ENDPOINT.

Its handler is ``lambda_function.handler``. What it tracks has left when it returns: afterwards the process is frozen.
"""

from __future__ import annotations

from typing import Any

from hookline_client import Client
from hookline_client.frameworks.aws_lambda import flush_after_invocation

client = Client()  # once per process; the next invocation uses its connection


@flush_after_invocation(client)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Track an order."""
    sent = client.track(event["user"], "Order Placed", {"request": context.aws_request_id})
    return {"statusCode": 200, "sent": sent}
