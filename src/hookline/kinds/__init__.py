"""The kinds of destination: a folder for each, and what an event becomes on its way to one."""
