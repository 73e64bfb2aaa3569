"""The models and GPUs that a registry knows, and the one reader of ``config.json``."""

from registry.catalogue.known import Catalogue

__all__ = ["Catalogue"]
