"""Specialization: values bound to a program's constants, and the keys of what is made of both."""
