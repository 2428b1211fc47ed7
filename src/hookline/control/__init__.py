"""The role control as a process: what it serves, put together from the features, and how it starts and stops."""
