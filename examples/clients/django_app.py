"""A Django project in one file. Write key and endpoint: HOOKLINE_CLIENT_WRITE_KEY and HOOKLINE_CLIENT_ENDPOINT.

``python django_app.py migrate``, then ``gunicorn django_app:application`` or ``uvicorn django_app:asgi``.
"""

from __future__ import annotations

import os
import secrets
import sys
from typing import Any

import django
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    SECRET_KEY=os.environ.get("SECRET_KEY", secrets.token_hex()),
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("DATABASE", "shop.db")}},
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "hookline_client.frameworks.django",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "hookline_client.frameworks.django.middleware.HooklineMiddleware",
    ],
    HOOKLINE={"default_context": {"app": {"name": "shop"}}},
)
django.setup()

from django.contrib.auth import login  # noqa: E402 - after setup
from django.contrib.auth.models import User  # noqa: E402


def sign_up(request: HttpRequest) -> JsonResponse:
    """Make a user and tell Hookline: from here on the browser's calls and ours belong to one person."""
    user = User.objects.create_user(request.GET["name"])
    login(request, user)
    calls: Any = request.hookline
    return JsonResponse({"sent": [calls.identify(traits={"name": user.username}), calls.track(event="Signed Up")]})


def buy(request: HttpRequest) -> JsonResponse:
    """Track without saying who: it is the one who signed up, or the browser's anonymous id."""
    calls: Any = request.hookline
    return JsonResponse({"sent": [calls.track(event="Bought", properties={"item": request.GET["item"]})]})


async def buy_async(request: HttpRequest) -> JsonResponse:
    """The same in an asynchronous view."""
    calls: Any = request.hookline
    return JsonResponse({"sent": [calls.track(event="Bought", properties={"item": request.GET["item"]})]})


urlpatterns = [path("sign-up", sign_up), path("buy", buy), path("buy-async", buy_async)]

if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
else:
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application

    from hookline_client.frameworks.asgi import FlushAtShutdown

    application = get_wsgi_application()
    asgi = FlushAtShutdown(get_asgi_application())
