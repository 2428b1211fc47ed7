"""The database of people: who they are, what they did as far as definitions ask, and their traits."""
