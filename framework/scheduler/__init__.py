"""From the lazy graph to one submission: plan, memory, arguments, execution."""
