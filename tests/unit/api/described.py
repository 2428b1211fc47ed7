"""The admin API's description, made once in a process, and not before a test asks for it: it takes most of a second."""

from __future__ import annotations

from functools import cache
from typing import Any

from hookline.api.openapi import description
from hookline.control.app import api


@cache
def described() -> dict[str, Any]:
    """The whole document; nobody changes it."""
    return description(api())
