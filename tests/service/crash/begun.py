"""Live once through what several tests begin with; each goes on with a copy of the stopped folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import NamedTuple

from tests.service.crash.put_back import NOT_PARTS
from tests.service.harness import Hookline


class Begun(NamedTuple):
    """A stopped service, and the port where its receiver was, for another one."""

    hookline: Hookline
    port: int = 0

    def copied(self, new_hookline: Callable[..., Hookline]) -> Hookline:
        """Make a service, not started, that goes on with a copy of its folder."""
        before = self.hookline
        assert "Traceback (most recent call last)" not in before.log, before.log[-4000:]
        hookline = new_hookline(*before.destinations, sources=before.sources, definitions=before.definitions)
        shutil.copytree(before.data, hookline.data, ignore=shutil.ignore_patterns(*NOT_PARTS))
        return hookline
