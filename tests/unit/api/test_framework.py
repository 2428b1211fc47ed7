"""What control does not load at its start."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from hookline.api import framework
framework.load()
from hookline.control.serve import run
print(*[name for name in sys.modules if name.startswith(("hookline.web", "jinja2"))])
from hookline.control.pages import routes
print(*sorted({"yaml", "pdb", "attr", "pydantic"} & {name for name, module in sys.modules.items() if module}))
import yaml
print(yaml.safe_dump({"a": 1}).strip())
"""


def test_the_framework_comes_without_pages_and_both_without_what_they_never_use() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["", "", "a: 1"]
