"""vyre-scan, the tool: `command` has its options, `files` chooses and reads files, `patterns` reads patterns and rules, `output`
writes what is found.
"""
