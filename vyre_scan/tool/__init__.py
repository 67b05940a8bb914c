"""vyre-scan, the tool: `options` is the command line, `walk` chooses files, `documents` reads them, `output` prints findings."""
