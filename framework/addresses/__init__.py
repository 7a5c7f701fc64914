"""PyTorch's addresses of what is elsewhere here, and of what is not here.

`table` says what an address offers, `finder` makes its module when it is first asked
for, so that an import of the library does nothing for them.
"""
