"""Know who calls: accounts, passwords, sessions and tokens, and what each may do."""
