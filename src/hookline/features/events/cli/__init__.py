"""``hookline listen``, ``send``, ``events``, ``why`` and ``tail``."""
