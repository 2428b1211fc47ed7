"""docs/how-to/run-in-production.md against the files, settings and commands that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hookline.cli.commands  # noqa: F401  (it registers them)
from hookline.cli.app import app
from hookline.cli.service.options import SUMMARIES
from hookline.settings import environment_name, keys, load
from tests.deploy.files import ROOT

PAGE = ROOT / "docs" / "how-to" / "run-in-production.md"
TEXT = PAGE.read_text()


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)", TEXT))))
def test_links_lead_somewhere(link: str) -> None:
    """Every page and file that is linked exists."""
    assert (PAGE.parent / link).exists()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?<![/(])deploy/[\w./-]*\w", TEXT))))
def test_files_that_are_named_exist(path: str) -> None:
    """Every file of deploy/ in a command exists."""
    assert (ROOT / path).exists()


def test_settings_are_good_ones(tmp_path: Path) -> None:
    """Each block of settings loads, and variables that are named are settings."""
    (tmp_path / "proxy").write_text("http://user:password@proxy.example.com:3128")
    behind_a_proxy, through_one = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    config = tmp_path / "hookline.yaml"
    config.write_text(behind_a_proxy)
    settings, _origins = load(config, environment={})
    assert settings.control.public_url == "https://hookline.example.com"
    config.write_text(through_one.replace("file:proxy", f"file:{tmp_path / 'proxy'}"))
    settings, _origins = load(config, environment={})
    assert settings.deliver.proxy
    named = set(re.findall(r"HOOKLINE_(?!SECRET)[A-Z_]*[A-Z]", TEXT))
    assert named <= {environment_name(key) for key in keys()}


def test_commands_exist() -> None:
    """Every verb that is written behind `hookline` is one."""
    verbs = set(re.findall(r"hookline hookline ([a-z]+)|`hookline ([a-z]+)", TEXT))
    found = {verb for pair in verbs for verb in pair if verb}
    assert found == {"up", "users", "export", "bench", "doctor"}
    assert found <= set(SUMMARIES) | set(app) | {"bench"}


def test_the_image_that_is_pushed_is_installed() -> None:
    """Repository and tag: the chart by itself asks for a tag that a build does not give."""
    (pushed,) = re.findall(r"docker push (\S+)", TEXT)
    repository, tag = pushed.rsplit(":", 1)
    assert f"--set image.repository={repository} --set image.tag={tag}" in TEXT
