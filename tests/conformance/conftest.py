"""Registers the importable suites, so that their failing assertions show both sides."""

import pytest

pytest.register_assert_rewrite("hookline.journal.conformance")
