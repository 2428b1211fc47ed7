"""The ids and names of everything people configure."""

from __future__ import annotations

from typing import Annotated

import msgspec

Id = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
