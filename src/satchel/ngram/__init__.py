"""N-gram language models and classifiers: counting, smoothing, tables, ARPA files. Does not import torch."""
