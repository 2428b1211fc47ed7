"""Brings failed deliveries back, or gives them up."""
