"""Look for what is worth a notice: each module has conditions (``finding.py``)."""
