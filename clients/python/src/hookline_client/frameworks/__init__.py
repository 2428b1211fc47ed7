"""Parts for frameworks, one module each. A module needs its framework; the rest of the library needs none."""
