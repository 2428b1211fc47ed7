"""What is worth a notice: one module per thing looked at, each a ``Condition`` (``finding.py``)."""
