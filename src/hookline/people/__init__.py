"""People: who they are, what they did as far as definitions ask, and what is known of them."""
