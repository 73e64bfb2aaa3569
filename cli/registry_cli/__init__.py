"""The command ``registry``."""
