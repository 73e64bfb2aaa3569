"""What measured runs say of the formulas: fitted, with honest intervals, kept in a file."""
