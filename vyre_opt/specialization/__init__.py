"""Specialization: values for a program's constants and type parameters, and cache keys made of both."""
