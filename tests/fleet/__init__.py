"""Fleets of Python, Node and Rust replicas in processes of their own."""
