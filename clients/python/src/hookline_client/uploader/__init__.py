"""``hookline-upload``: brings the log files of the ``file`` consumer to the service."""
