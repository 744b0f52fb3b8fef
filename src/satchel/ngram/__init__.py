"""Language models that count: n-grams, their smoothing, their tables, and ARPA files. No torch here."""
