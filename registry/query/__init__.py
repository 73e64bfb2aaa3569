"""Untrusted SQL over the registry's tables, in a confined child process.

The process that asks never loads the engine, and the statement can reach nothing but the tables
it hands over. Nothing is imported here: the child would pay for it each time it starts.
"""
