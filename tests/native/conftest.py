"""Beside the tests stands what they share."""
