"""Hookline beside Svix, Outpost and Convoy on one machine, each with the stores that its makers recommend."""
