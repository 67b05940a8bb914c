"""Fuzzing: mutations of right inputs, given to every part that reads what a user wrote or a disk holds."""
