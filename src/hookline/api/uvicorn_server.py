"""What is used of uvicorn, without its command line, which the package brings along: 50 ms of each start and
1 MB for nothing. The package is put where its modules look for it and is not run; some ask it for ``Config``.
"""

from __future__ import annotations

import importlib.util
import sys

if "uvicorn" not in sys.modules and (found := importlib.util.find_spec("uvicorn")) is not None:
    sys.modules["uvicorn"] = importlib.util.module_from_spec(found)

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import Server, ServerState

setattr(sys.modules["uvicorn"], "Config", Config)  # noqa: B010 - a module has no such field to a type checker

__all__ = ["Config", "HttpToolsProtocol", "Server", "ServerState"]
