"""What the importers share: reading files, telling runs apart, building observations."""
