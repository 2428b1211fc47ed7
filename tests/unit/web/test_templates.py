"""What every template holds to."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, nodes

from hookline.web.rendering import FEATURES, FOLDER

_FORM = re.compile(r"<form\b[^>]*>")
_TEMPLATES = [*(FOLDER / "templates").glob("*.html"), *FEATURES.glob("*/templates/**/*.html")]


def test_forms_of_the_api_put_nothing_into_an_address() -> None:
    """A browser without our scripts, or before they are there, sends them by itself: by POST, which no page takes."""
    forms = [form for path in _TEMPLATES for form in _FORM.findall(path.read_text())]
    sent_by_scripts = [form for form in forms if "data-api" in form or "data-test" in form]
    assert len(sent_by_scripts) > 30
    assert [form for form in sent_by_scripts if 'method="post"' not in form] == []


def test_pages_fill_in_only_blocks_that_their_frames_have() -> None:
    """Jinja leaves out any other without a word."""
    parsed = {path.relative_to(_folder(path)).as_posix(): Environment().parse(path.read_text()) for path in _TEMPLATES}
    lost = []
    for name, template in parsed.items():
        frame, known = template.find(nodes.Extends), set[str]()
        while frame is not None:
            # What a page gets as its layout is the whole page, or only its live parts, which have fewer blocks.
            above = parsed[frame.template.value if isinstance(frame.template, nodes.Const) else "app.html"]
            known |= {block.name for block in above.find_all(nodes.Block)}
            frame = above.find(nodes.Extends)
        if known:
            filled = {block.name for block in template.body if isinstance(block, nodes.Block)}
            lost += [(name, block) for block in sorted(filled - known)]
    assert lost == []


def _folder(path: Path) -> Path:
    return next(each for each in path.parents if each.name == "templates")
