"""The first lines to paste, as ``hookline up`` prints them."""

from __future__ import annotations

import json
import shlex

from hookline.cli.service.welcome import Page, text_of
from hookline.settings import Settings


def test_a_key_with_signs_of_the_shell_is_pasted_as_it_is() -> None:
    """A write key may have almost any sign; a shell would run what some of them say."""
    key = "$(touch${IFS}run)'&k"
    sources = [{"id": "website", "name": "Website", "writeKeys": [key]}]
    text = text_of(Page("http://h/", once=False, is_new=False), "http://h/a&b", sources, Settings(), quickstart=False)
    (line,) = (each for each in text.splitlines() if "curl" in each)
    *words, event = shlex.split(line)
    assert words == ["curl", "-u", f"{key}:", "http://h/a&b/v1/track", "-d"]
    assert json.loads(event)["event"] == "Signed Up"
