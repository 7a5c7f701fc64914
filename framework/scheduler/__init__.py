"""Scheduler: lowers the lazy graph to one submission (plan, memory, arguments)."""
