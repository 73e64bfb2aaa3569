"""Untrusted SQL over the registry's tables, in a confined child process.

The process that asks never loads the engine, and nothing but the tables it hands over is within
the statement's reach. Nothing is imported here: the child would pay for it each time it starts.
"""
