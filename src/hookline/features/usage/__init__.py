"""Show what was received and delivered, by month and by day, and how many people."""
