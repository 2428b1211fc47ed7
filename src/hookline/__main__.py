"""``python -m hookline`` is the ``hookline`` command."""

from hookline.cli.main import main

main()
