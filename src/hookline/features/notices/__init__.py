"""Notices: what is worth telling operators, when it began and ended, and whom it is sent to."""
