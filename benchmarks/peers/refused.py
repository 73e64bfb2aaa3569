"""What a peer does not answer."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - an answer of the peer, no error of ours
    """A peer does not model what is asked; the message says what."""


def refuse_if(holds: object, what: str) -> None:
    """Raise Refused where something that the peer does not model is asked."""
    if holds:
        raise Refused(what)
