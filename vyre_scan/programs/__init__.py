"""Programs that find where patterns are: `pattern_filter`, `pattern_grams` and `pattern_walk` on CPUs, `tiled_search` on GPUs."""
