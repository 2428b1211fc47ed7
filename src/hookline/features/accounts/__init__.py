"""Who may do what: accounts of people, their passwords and sessions, and API tokens of programs."""
