"""A Flask application. Write key and endpoint: HOOKLINE_CLIENT_WRITE_KEY and HOOKLINE_CLIENT_ENDPOINT.

``gunicorn --preload --workers 2 flask_app:app``: the client is made before the workers are forked, and works in each.
"""

from __future__ import annotations

import os
import secrets

from flask import Flask, request, session

from hookline_client.frameworks.flask import Hookline

app = Flask(__name__)
app.secret_key = os.environ.get("SECRET_KEY", secrets.token_hex())
hookline = Hookline(app, user_id=lambda: session.get("user"))

with app.app_context():  # outside a request a call says itself whom it is about
    hookline.track("server", "Started")


@app.get("/sign-up")
def sign_up() -> dict[str, object]:
    """Sign somebody up and tell Hookline."""
    session["user"] = request.args["name"]
    return {"sent": [hookline.identify(traits={"plan": "free"}), hookline.track(event="Signed Up")], "pid": os.getpid()}


@app.get("/buy")
def buy() -> dict[str, object]:
    """Track without saying who: it is the session's user, or the browser's anonymous id."""
    return {"sent": [hookline.track(event="Bought", properties={"item": request.args["item"]})], "pid": os.getpid()}
