"""Every example of the documentation, run as a reader would run it."""
