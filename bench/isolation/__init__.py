"""The isolation report: healthy receivers beside sick ones, and the sick ones healed."""
