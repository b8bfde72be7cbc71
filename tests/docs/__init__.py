"""The documents run: their code, their links, and what they list compared with the program."""
