"""``python -m registry``: the command."""

from registry_cli.main import main

main()
