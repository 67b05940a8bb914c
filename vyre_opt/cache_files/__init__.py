"""The files of the cache: where their folder is, who may write to it, and how each is sealed.  See docs/reference/cache.md."""
