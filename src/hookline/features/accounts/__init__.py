"""Manage accounts of people and API tokens of programs."""
