"""Loads the web framework without what it would load for nothing: 12 MB, and a tenth of the time to start."""

from __future__ import annotations

import sys
from types import ModuleType

NOT_OURS = ("pydantic", "attr", "attrs")
"""The framework takes these where they are installed, for whatever reason; it goes on without them."""
NEVER_CALLED = ("yaml", "pdb")
"""The framework insists on these, for features that are off; who wants them later gets the real ones."""


def load() -> None:
    """Import the framework; call it before anything else does."""
    for name in NOT_OURS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # makes its import fail
    stand_ins = {name: ModuleType(name) for name in NEVER_CALLED if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        import litestar  # noqa: F401
    finally:
        for name in stand_ins:
            del sys.modules[name]
