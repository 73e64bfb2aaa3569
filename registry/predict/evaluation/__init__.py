"""How good the predictions are, and the page of the documentation that says so."""
