"""A web page on which runs can be watched, under way or stored: `tiercast watch`."""
