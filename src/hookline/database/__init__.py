"""The SQLite files of one installation: how they are opened, what is in them, how they grow from version to version."""
