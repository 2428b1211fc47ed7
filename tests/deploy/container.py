"""The instructions of the Containerfile."""

from __future__ import annotations

import re

from tests.deploy.files import DEPLOY

CONTAINERFILE = DEPLOY / "container" / "Containerfile"


def instructions(word: str, stage: int | None = None) -> list[str]:
    """What follows each instruction of this word, in order; of one stage (from 0; -1 is the last), or of all."""
    joined = re.sub(r"\\\n\s*", " ", CONTAINERFILE.read_text())
    stages = re.split(r"^(?=FROM )", joined, flags=re.MULTILINE)[1:]
    text = joined if stage is None else stages[stage]
    return re.findall(rf"^{word} +(.+)$", text, re.MULTILINE)
