"""What mappings are compared with: Segment's own package, in Node.js."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from hookline.kinds.mapping import MISSING, MappingError, MappingFailed, compile_mapping
from hookline.kinds.mapping.bounds import Work
from hookline.kinds.mapping.javascript import stringify

SDKS = Path(__file__).parents[4] / "build/sdks"
SCRIPT = Path(__file__).with_name("oracle.js")

Pair: TypeAlias = tuple[Any, Any]
FAILED = "failed"


class Oracle:
    """Ask a Node.js process, which answers line by line."""

    def __init__(self) -> None:
        self._node = subprocess.Popen(
            ["node", "-e", SCRIPT.read_text()],
            cwd=SDKS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def results(self, pairs: Sequence[Pair]) -> list[str | None]:
        """Return the text of each value, None where it is undefined, ``FAILED`` where the oracle throws."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps(pairs) + "\n")
        self._node.stdin.flush()
        answers = json.loads(self._node.stdout.readline())
        return [FAILED if "error" in answer else answer["text"] for answer in answers]

    def close(self) -> None:
        """End the process."""
        self._node.communicate(timeout=60)


def ours(mapping: Any, event: Any) -> str | None:
    """Return what Hookline makes of a pair, in the oracle's form."""
    try:
        value = compile_mapping(mapping).resolve(event)
    except (MappingError, MappingFailed):
        return FAILED
    return None if value is MISSING else stringify(value, Work())
