"""Modules whose parameters, gradients and moments are divided among ranks.

`layout` says which elements a rank has, `unit` gathers and frees the parameters of some
modules, `schedule` when, `wrapper` is what programs use.
"""
