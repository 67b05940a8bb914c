"""vyre-scan, the tool: `options` has what is on the command line, `walk` chooses files, `documents` reads them, `patterns` reads patterns and rules, `output`
writes what is found.
"""
