"""Run training jobs and measure them: plans of trials, any command, and recorded trials again.

Importing this package loads nothing heavy: torch is loaded by the jobs, in processes of their own.
"""
