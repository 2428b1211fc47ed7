"""What is wrong with an expression's text."""

from __future__ import annotations


class ExpressionError(ValueError):
    """An expression that cannot be read; the message says what to do and ends with the column (from 1)."""

    def __init__(self, sentence: str, column: int) -> None:
        super().__init__(f"{sentence} at column {column}")
        self.column = column
