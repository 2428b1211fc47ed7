"""Which class is behind the name of a consumer. Modules are imported when they are asked for."""

from __future__ import annotations

from importlib import import_module

from hookline_client.consumers.protocol import Consumer
from hookline_client.errors import InvalidOption
from hookline_client.ledger import Ledger
from hookline_client.options import Options

CONSUMERS = {
    "background": ("hookline_client.consumers.background", "Background"),
    "lib_curl": ("hookline_client.consumers.lib_curl", "LibCurl"),
    "fork_curl": ("hookline_client.consumers.fork_curl", "ForkCurl"),
    "socket": ("hookline_client.consumers.socket", "Socket"),
    "background with a spool": ("hookline_client.consumers.spooled", "Spooled"),
    "file": ("hookline_client.consumers.file", "File"),
}


def make_consumer(options: Options, ledger: Ledger) -> Consumer:
    """Make the consumer that the options name; InvalidOption when it cannot be had here."""
    if callable(options.consumer):
        return options.consumer(options, ledger)
    if options.spool and options.consumer != "background":
        raise InvalidOption("invalid_option", f"spool goes with the consumer background, not {options.consumer!r}")
    module, name = CONSUMERS["background with a spool" if options.spool else options.consumer]
    try:
        consumer: Consumer = getattr(import_module(module), name)(options, ledger)
    except ImportError as error:
        raise InvalidOption("invalid_option", f"consumer {options.consumer!r} cannot be used: {error}") from error
    return consumer
