"""What people install comes from a checkout or a wheel: a name that no index has yet is anybody's to take."""

from __future__ import annotations

import re
from pathlib import Path

from hookline.extras import install_extra
from hookline.features.setup.snippets import snippet

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "CHANGELOG.md", "clients", "deploy", "docs", "examples", "src")
ENDINGS = {".html", ".js", ".md", ".py", ".txt", ".yaml", ".yml"}
BY_NAME = re.compile(r"(?:pip|pipx|uv|poetry) (?:install|add)(?: -\S+)* ['\"]?hookline\b(?!/)")


def test_nothing_is_installed_by_the_name_of_a_package() -> None:
    """On no page, in no message, and in no line to paste."""
    files = [path for place in PLACES for path in [ROOT / place, *(ROOT / place).rglob("*")] if path.suffix in ENDINGS]
    assert any("pip install" in path.read_text() for path in files)
    assert [str(path.relative_to(ROOT)) for path in files if BY_NAME.search(path.read_text())] == []


def test_an_extra_is_installed_as_pip_takes_it() -> None:
    """From a checkout or a wheel, one or several."""
    said = "pip install '.[kafka,otel]' in a checkout of Hookline, or 'FILE.whl[kafka,otel]' with its wheel"
    assert install_extra("kafka,otel") == said


def test_the_lines_for_python_install_the_folder_of_the_library() -> None:
    """It is there, and the lines say where there is."""
    made = snippet("python", "wk", "http://127.0.0.1:8080")
    assert (ROOT / made.install.removeprefix("pip install ") / "pyproject.toml").is_file()
    assert "checkout" in made.text
