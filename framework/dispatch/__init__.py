"""How an operation is declared and called."""
