"""``/settings``: how the server is set up, and every change of the connections with the way back."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.control.effective_settings import effective_settings
from hookline.control.listing import After, number_after
from hookline.control.services import FromServices
from hookline.setting_text import written
from hookline.web.rendering import redirect
from hookline.web.screen import screen, unknown
from hookline.web.settings_tabs import tabs

VERSIONS_ON_A_PAGE = 50
OBJECTS_ON_A_PAGE = 20


@get("/settings", needs="viewer")
async def show_settings() -> Response[str]:
    """Lead to the first tab."""
    return redirect("/settings/versions")


@get("/settings/versions", needs="viewer")
async def show_versions(request: Request[Any, Any, Any], services: FromServices, after: After = None) -> Response[str]:
    """List what changed the connections."""
    found = services.past.newest(VERSIONS_ON_A_PAGE + 1, number_after(after))
    shown = found[:VERSIONS_ON_A_PAGE]
    return screen(
        request,
        "settings_versions.html",
        "settings",
        tabs=tabs("Versions"),
        versions=shown,
        in_force=services.store.version,
        first="/settings/versions" if after else "",
        after=f"/settings/versions?after={shown[-1].version}" if len(found) > len(shown) else "",
    )


@get("/settings/versions/{number:int}", needs="viewer")
async def show_version(request: Request[Any, Any, Any], services: FromServices, number: FromPath[int]) -> Response[str]:
    """Show one change field by field."""
    version = services.past.version(number, OBJECTS_ON_A_PAGE) if number < 1 << 63 else None
    if version is None:
        return unknown(request, "settings", "Version", "There is no version of this number", str(number), "")
    in_force = services.store.version
    return screen(request, "settings_version.html", "settings", version=version, in_force=in_force)


@get("/settings/server", needs="owner")
async def show_server_settings(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show every setting with its origin."""
    found = effective_settings(services.settings, services.origins)
    rows = [(each.key, written(each.key, each.value), each.source) for each in found]
    return screen(request, "settings_server.html", "settings", tabs=tabs("Server"), rows=rows)
