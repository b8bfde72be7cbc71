"""The session on disk: tables, generated SQL, and the one line that writes them."""
