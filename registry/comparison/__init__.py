"""Runs held against each other: which ones a word selects, and how they differ."""
