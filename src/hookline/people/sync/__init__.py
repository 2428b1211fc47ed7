"""Sends destinations who belongs to an audience, and computed traits."""
