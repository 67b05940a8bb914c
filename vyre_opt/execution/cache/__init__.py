"""The compile cache: what was compiled, kept on disk for the next process.  See docs/reference/cache.md."""
