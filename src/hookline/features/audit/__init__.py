"""Show who changed what, when and from where."""
