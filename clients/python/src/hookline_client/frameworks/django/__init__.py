"""Django: ``"hookline_client.frameworks.django"`` in ``INSTALLED_APPS``, the middleware, and the setting ``HOOKLINE``.

``HOOKLINE`` is a mapping of the client's options and ``write_key``; what it leaves out comes from the environment.
"""
