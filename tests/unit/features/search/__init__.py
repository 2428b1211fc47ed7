"""Tests of the search for anything."""
