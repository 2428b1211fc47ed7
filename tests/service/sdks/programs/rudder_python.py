"""A program of somebody who uses rudder-sdk-python (gzip by default): only the host is not the default."""

import json
import os
import sys
from datetime import datetime
from pathlib import Path

from rudderstack.analytics.client import Client

NAMES = {"userId": "user_id", "anonymousId": "anonymous_id", "groupId": "group_id", "previousId": "previous_id"}

errors = []
analytics = Client(os.environ["WRITE_KEY"], host=os.environ["HOST"], on_error=lambda error, items: errors.append(error))
for said in json.loads(Path(os.environ["CALLS"]).read_text()):
    call = {NAMES.get(name, name): value for name, value in said.items() if name != "type"}
    if "timestamp" in call:
        call["timestamp"] = datetime.fromisoformat(call["timestamp"])
    getattr(analytics, said["type"])(**call)
analytics.flush()
analytics.join()
sys.exit(f"errors: {errors}" if errors else 0)
