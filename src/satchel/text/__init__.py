"""Text input and output: reading files, tables, tokenizers, display. No torch."""
