"""Fleets of Python and Node replicas in processes of their own."""
