"""From files to tokens: reading, tables, tokenizers, built-in corpora. No torch here."""
