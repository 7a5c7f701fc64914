"""Which kernel an operation launches, with what tiles and arguments.

No operation is called from here.
"""
