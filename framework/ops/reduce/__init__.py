"""Reductions and scans."""
