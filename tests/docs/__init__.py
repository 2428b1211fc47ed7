"""The reference pages say what the code does."""
