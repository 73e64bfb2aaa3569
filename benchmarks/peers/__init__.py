"""What other estimators answer to the rows that ours is judged on."""
