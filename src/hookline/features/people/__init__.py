"""One person: what is known of them and from where, and what they did."""
