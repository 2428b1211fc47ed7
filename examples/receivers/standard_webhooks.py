"""A receiver in Python, standard library only: verifies Standard Webhooks signatures, drops repeats, answers 200.

Run: SECRET=whsec_… PORT=9000 python3 standard_webhooks.py
"""

import base64
import hashlib
import hmac
import json
import os
import time
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))
TOLERANCE_SECONDS = 300
REMEMBERED = 100_000

seen: "OrderedDict[str, None]" = OrderedDict()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.authentic(body):
            self.answer(401)
            return
        # After a crash Hookline may send an event again; its webhook-id stays the same.
        message_id = self.headers["webhook-id"]
        if message_id not in seen:
            seen[message_id] = None
            if len(seen) > REMEMBERED:
                seen.popitem(last=False)
            print(json.dumps(json.loads(body)), flush=True)
        self.answer(200)

    def authentic(self, body: bytes) -> bool:
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        message_id, timestamp, signatures = (self.headers.get(name, "") for name in names)
        # An old time means that somebody sends again what they have seen: Hookline gives every attempt its own.
        if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
            return False
        # The signature is over the bytes of the body: compute it before parsing, compare in constant time.
        content = f"{message_id}.{timestamp}.".encode() + body
        expected = b"v1," + base64.b64encode(hmac.new(KEY, content, hashlib.sha256).digest())
        # While the secret rotates there are two signatures; one that fits is enough.
        return any(hmac.compare_digest(expected, given.encode()) for given in signatures.split(" "))

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver).serve_forever()
