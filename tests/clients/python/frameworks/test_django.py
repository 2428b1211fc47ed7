"""The Django example under real servers: who made a request is filled in, and so is its context."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils.functional import lazystr

from hookline_client.encoding import encode
from tests.clients.python.frameworks.conftest import Shop
from tests.service.harness import Hookline

Bodies = Callable[[list[str]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def database(hookline: Hookline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the tables of the example."""
    shop = Shop(tmp_path_factory.mktemp("django"), hookline)
    shop.environment["DATABASE"] = str(shop.folder / "shop.db")
    shop.run("-m", "django_app", "migrate", "--verbosity", "0")
    return shop.folder / "shop.db"


@pytest.fixture
def migrated(shop: Shop, database: Path) -> Shop:
    """The example with a database of its own."""
    shop.environment |= {"SECRET_KEY": "s" * 50, "DATABASE": str(shop.folder / "shop.db")}
    shutil.copy(database, shop.folder)
    return shop


def test_calls_of_a_signed_in_user_under_gunicorn(migrated: Shop, bodies_of: Bodies) -> None:
    """After signing up, calls carry the user's id and the browser's anonymous id, and what is known of the request."""
    migrated.serve("-m", "gunicorn", "--bind", f"127.0.0.1:{migrated.port}", "django_app:application")
    browser = {"User-Agent": "Test/1.0", "Accept-Language": "de-AT,de;q=0.9", "Referer": "http://x/?token=secret"}
    first, session = migrated.get("/sign-up?name=ann", {**browser, "Cookie": "ajs_anonymous_id=a-1"})
    second, _ = migrated.get("/buy?item=hat", {**browser, "Cookie": f"{session}; ajs_anonymous_id=a-1"})
    migrated.stop()
    identify, _, bought = bodies_of(first["sent"] + second["sent"])
    assert identify["traits"] == {"name": "ann"}
    assert (bought["userId"], bought["anonymousId"]) == ("1", "a-1") == (identify["userId"], identify["anonymousId"])
    context = bought["context"]
    assert (context["userAgent"], context["locale"], context["ip"]) == ("Test/1.0", "de-AT", "127.0.0.1")
    assert context["page"] == {
        "url": f"http://127.0.0.1:{migrated.port}/buy",
        "path": "/buy",
        "referrer": "http://x/",
    }
    assert context["app"] == {"name": "shop"}


def test_asynchronous_views_under_uvicorn(migrated: Shop, bodies_of: Bodies) -> None:
    """The signed-in user is known there too, nobody has an anonymous id, and the end of the server loses nothing."""
    migrated.environment["HOOKLINE_CLIENT_FLUSH_AFTER"] = "3600"
    migrated.serve("-m", "uvicorn", "--port", str(migrated.port), "django_app:asgi")
    _, session = migrated.get("/sign-up?name=bob")
    first, _ = migrated.get("/buy-async?item=hat", {"Cookie": session})
    second, _ = migrated.get("/buy-async?item=hat")
    migrated.stop()
    of_bob, of_nobody = bodies_of(first["sent"] + second["sent"])
    assert (of_bob["userId"], "anonymousId" in of_bob) == ("1", False)
    assert ("userId" in of_nobody, len(of_nobody["anonymousId"])) == (False, 36)


def test_wrong_settings_are_said_at_once(shop: Shop) -> None:
    """A misspelt option names the nearest one; a missing key is a warning of ``manage.py check``."""
    program = (
        "import django\nfrom django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['hookline_client.frameworks.django'], HOOKLINE={})\n"
        "django.setup()\n"
        "from django.core.checks import run_checks\n"
        "from django.core.exceptions import ImproperlyConfigured\n"
        "from django.test import override_settings\n"
        "print([found.id for found in run_checks()])\n"
        "try:\n    override_settings(HOOKLINE={'flush_ad': 1}).enable()\n"
        "except ImproperlyConfigured as error:\n    print(error)\n"
    )
    del shop.environment["HOOKLINE_CLIENT_WRITE_KEY"]
    printed = shop.run("-c", program)
    assert "hookline.W001" in printed
    assert "flush_at?" in printed


def test_requests_outlive_the_client(shop: Shop) -> None:
    """A request after ``close`` is answered, and its calls are ignored with a line in the log."""
    program = (
        "import django\nfrom django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['hookline_client.frameworks.django'])\n"
        "django.setup()\n"
        "from django.http import HttpRequest, HttpResponse\n"
        "from hookline_client import close\n"
        "from hookline_client.frameworks.django.middleware import HooklineMiddleware\n"
        "def view(request):\n    return HttpResponse(str(request.hookline.track(event='Bought')))\n"
        "answer = HooklineMiddleware(view)\n"
        "close()\n"
        "print(answer(HttpRequest()).content.decode())\n"
    )
    assert shop.run("-c", program) == "None\n"


def test_a_page_that_needs_no_user_is_answered_without_the_database(shop: Shop) -> None:
    """The asynchronous middleware looks the user up before the view: that this fails is the calls' affair alone."""
    program = (
        "import asyncio\nimport django\nfrom django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['hookline_client.frameworks.django'])\n"
        "django.setup()\n"
        "from django.http import HttpRequest, HttpResponse\n"
        "from hookline_client.frameworks.django.middleware import HooklineMiddleware\n"
        "async def view(request):\n    return HttpResponse(str(request.hookline.track(event='Bought')))\n"
        "async def auser():\n    raise OSError('the database is away')\n"
        "request = HttpRequest()\n"
        "request.auser, request.COOKIES = auser, {'sessionid': 's'}\n"
        "print(asyncio.run(HooklineMiddleware(view)(request)).content.decode())\n"
    )
    assert shop.run("-c", program) == "None\n"


def test_lazy_texts_are_sent_as_texts() -> None:
    """A model's verbose_name and what gettext_lazy returns, which have the letters of a string too."""
    text = lazystr("Größe")
    assert json.loads(encode({"v": text, text: [text]})) == {"v": "Größe", "Größe": ["Größe"]}
