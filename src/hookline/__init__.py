"""Hookline: self-hosted event forwarding. Calls in, signed webhooks out, nothing lost."""

__version__ = "0.1.0"
