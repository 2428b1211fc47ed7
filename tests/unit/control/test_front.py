"""What control does not load at its start."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from hookline.control.serve import run
print(*[name for name in sys.modules if name.startswith(("hookline.web", "jinja2", "litestar", "yaml"))])
"""


def test_control_starts_without_the_framework_and_the_pages() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [""]
