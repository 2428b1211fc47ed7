"""Dead letters: what was given back for good, listed, sent again or put away."""
