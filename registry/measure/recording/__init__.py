"""Measure a training from inside its own process. Loads nothing that the job has not loaded."""
