"""A receiver in Python, standard library only: verifies X-Signature, drops repeats, answers 200.

Run: SECRET=s3cret PORT=9000 python3 receiver.py
"""

import hashlib
import hmac
import json
import os
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["SECRET"].encode()
REMEMBERED = 100_000

seen: "OrderedDict[str, None]" = OrderedDict()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        # The signature is over the bytes of the body: compute it before parsing, compare in constant time.
        # While the secret rotates, X-Signature is by the old one and X-Signature-Next by the new one: taking either
        # lets SECRET be changed at any moment of the overlap.
        expected = hmac.new(SECRET, body, hashlib.sha1).hexdigest().encode()
        given = [self.headers.get(name, "").encode() for name in ("X-Signature", "X-Signature-Next")]
        if not any(hmac.compare_digest(expected, each) for each in given):
            self.answer(401)
            return
        # After a crash Hookline may send an event again; its X-Message-Id stays the same.
        message_id = self.headers.get("X-Message-Id", "")
        if message_id not in seen:
            seen[message_id] = None
            if len(seen) > REMEMBERED:
                seen.popitem(last=False)
            print(json.dumps(json.loads(body)), flush=True)
        self.answer(200)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver).serve_forever()
