"""What happens around an upgrade: tables that are older or newer than a role knows, and migrations that take long."""
