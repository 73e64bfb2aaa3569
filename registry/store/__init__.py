"""The folder of a registry: journal, folded tables, manifests."""
