"""The kinds of destination: a folder for each, with a manifest, a set-up guide and an icon."""
