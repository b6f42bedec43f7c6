"""Requests that wait for a program, and run together where that changes no answer."""
