"""The registry as a static web site: files to open, to serve, or to put on GitHub Pages."""
