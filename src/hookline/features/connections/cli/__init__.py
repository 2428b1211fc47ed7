"""``check``, ``diff``, ``apply``, ``export``, and objects one by one."""
