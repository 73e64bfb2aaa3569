"""Answers: will it fit, how fast, at what cost; with evidence and an honest interval.

What needs numpy loads it where it is used; nothing here loads torch.
"""
