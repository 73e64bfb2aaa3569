"""What peaks and times are by arithmetic alone: ours, and what others publish."""
