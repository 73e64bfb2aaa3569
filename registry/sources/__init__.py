"""Sources that contributors add: a folder drafted from a document, and what is to be seen in it."""
