"""Pipelines by pairs of features, with an oracle of NumPy: `PYTHONPATH=test python -m support.features --help`.

    table         the features, and which exclude each other
    arithmetic    what ops do on arrays, from the language's text
    sources       a program's body, written as `.vyre` text or as Python
    scene         buffers, programs and launches that are drawn one after the other
    patterns      which element makes which         } source and meaning on whole arrays,
    templates     the stages                        } one beside the other
    composition   the pipeline of a seed, which has a pair of features
    running       as it is, and after passes, against the oracle
    campaign      many seeds, and the table of pairs

To add a feature: a row of `table`, and a `scene.flag("name", chance)` in the template that has it, among its `offers`; the
campaign then makes its pairs.  A template writes a stage's source and its meaning side by side, and neither from the other.

Nothing here knows what passes prove: what a program computes is known because each of its stages says it in NumPy.
"""
