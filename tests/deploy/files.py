"""Where the files are, and what their YAML says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a file of YAML holds."""
    document = yaml.safe_load(path.read_text())
    assert isinstance(document, dict), path
    return document
