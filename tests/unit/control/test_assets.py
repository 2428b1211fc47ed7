"""What pages are drawn with: only known files are served, compressed where that is understood, and none was altered."""

from __future__ import annotations

import gzip
from hashlib import sha256

import pytest

from hookline.web.errors import known_assets
from hookline.web.rendering import STATIC_FOLDER
from tests.unit.control.running import Running


def test_assets_are_compressed_for_those_who_take_it(asked: Running) -> None:
    """Both forms hold the same bytes and may be kept for ever."""
    plain = asked.call("GET", "/static/live.js", token=False)
    small = asked.call("GET", "/static/live.js", headers={"Accept-Encoding": "gzip, br"}, token=False)
    assert (small.headers["content-encoding"], small.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert gzip.decompress(small.body) == plain.body
    assert "immutable" in plain.headers["cache-control"]
    assert plain.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("path", ["nope.css", "uplot/LICENSE", "..%2Frendering.py", "../rendering.py", "uplot", ""])
def test_nothing_else_is_served(asked: Running, path: str) -> None:
    """Neither what is beside the folder nor what has no use in a browser."""
    assert asked.call("GET", f"/static/{path}", token=False).status == 404


def test_what_others_wrote_is_as_they_wrote_it() -> None:
    """Each file of the chart library has the digest it was brought in with, and the licence is there."""
    folder = STATIC_FOLDER / "uplot"
    recorded = dict(reversed(line.split("  ./")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    names = {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    assert names == set(recorded)
    assert "LICENSE" in names
    assert {name: sha256((folder / name).read_bytes()).hexdigest() for name in names} == recorded


def test_each_file_has_a_kind_that_browsers_are_told() -> None:
    """Style sheets, scripts and pictures, also those in folders."""
    assert known_assets()["uplot/uPlot.min.css"] == "text/css"
    assert set(known_assets().values()) == {"text/css", "text/javascript", "image/svg+xml"}
