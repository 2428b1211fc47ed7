"""What every template holds to."""

from __future__ import annotations

import re

from hookline.web.rendering import FEATURES, FOLDER

_FORM = re.compile(r"<form\b[^>]*>")


def test_forms_of_the_api_put_nothing_into_an_address() -> None:
    """A browser without our scripts, or before they are there, sends them by itself: by POST, which no page takes."""
    templates = [*(FOLDER / "templates").glob("*.html"), *FEATURES.glob("*/templates/**/*.html")]
    forms = [form for path in templates for form in _FORM.findall(path.read_text())]
    sent_by_scripts = [form for form in forms if "data-api" in form or "data-test" in form]
    assert len(sent_by_scripts) > 30
    assert [form for form in sent_by_scripts if 'method="post"' not in form] == []
