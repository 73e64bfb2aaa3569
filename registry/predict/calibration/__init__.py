"""The formulas corrected by what was measured, with honest intervals, and the file of the fit."""
