"""``hookline listen``, ``send``, ``events``, ``why`` and ``tail``: events on their way."""
