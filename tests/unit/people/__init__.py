"""Who people are, what is known of them, and the history of what they did."""
