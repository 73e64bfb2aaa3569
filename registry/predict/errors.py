"""What is wrong with a question."""

from __future__ import annotations

from registry.errors import RegistryError


class QuestionError(RegistryError):
    """A question asks for what cannot be."""
