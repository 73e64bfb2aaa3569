"""Run training jobs and measure them: plans of trials, any command, and repeats of the recorded.

Importing this package loads nothing heavy: torch is loaded by the jobs, in processes of their own.
"""
