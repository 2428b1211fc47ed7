"""The one logger of the library: silent unless the application, ``debug`` or ``DEBUG=analytics`` asks for lines.

The module ``logging`` takes as long to import as all of ours; it is when there is a line to write.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

_made: Logger | None = None


def logger() -> Logger:
    """The logger ``hookline_client``."""
    global _made
    if _made is None:
        import logging

        made = logging.getLogger("hookline_client")
        made.addHandler(logging.NullHandler())
        _made = made
    return _made


def turn_on_when_asked(debug: bool) -> bool:
    """Log everything when ``debug`` or the environment says so; to stderr if nobody handles the lines."""
    if not debug and "analytics" not in os.environ.get("DEBUG", "").replace(",", " ").split():
        return False
    import logging

    ours = logger()
    ours.setLevel(logging.DEBUG)
    if all(isinstance(handler, logging.NullHandler) for handler in [*ours.handlers, *logging.getLogger().handlers]):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        ours.addHandler(handler)
    return True
