"""The version of the library, told to the service in ``context.library`` and ``User-Agent``."""

VERSION = "0.1.0"
