"""What holds for all tests: generated cases are the same in every run and have no deadline.

So a change is judged by what it changes. ``pytest --hypothesis-profile=default`` looks for new cases.
"""

from __future__ import annotations

from hypothesis import settings

settings.load_profile("ci")
