"""Replays: planned, watched, stopped; what is replayed is the pipeline's (``hookline.replays``)."""
