"""N-gram language models and classifiers: counting, smoothing, tables, ARPA files. This package does not import torch."""
