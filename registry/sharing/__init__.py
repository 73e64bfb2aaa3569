"""Hand one's own observations to the curated records: choose, check, show, and write a patch."""
