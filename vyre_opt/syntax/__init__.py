"""The text language: reading it, printing the IR in it, and all that knows how it is written."""
