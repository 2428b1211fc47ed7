"""The kinds of destination: what people read of them, the form of their settings, and checking one that is written."""
