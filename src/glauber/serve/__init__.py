"""Models behind a port: an HTTP server whose requests share chains."""
