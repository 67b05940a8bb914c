"""Planted mistakes: one at a time in a copy of the code, each with the test that must notice it.

    python test/mutants                 all of them; exit code 1 if a test passes all the same
    python test/mutants transient       those with a word in their title or file
    python test/mutants --jobs 4        so many side by side; as many as CPUs by default
    python test/mutants --page          the page of the site, on stdout

A table for each area: `analysis`, `fusion`, `passes`, and `lowering_common`, `lowering_host`, `lowering_nvptx`;
`tables` has them all.  `planting` plants and runs.
"""
