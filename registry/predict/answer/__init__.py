"""A question answered: figures, a verdict, the nearest runs, and what would make it fit."""
