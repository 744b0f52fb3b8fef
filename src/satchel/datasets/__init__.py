"""Built-in data sets behind one registry."""
