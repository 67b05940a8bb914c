"""Reports on what the passes did to a module's pipelines: an HTML page and a DOT graph.

    traffic     memory traffic in bytes, as far as sizes are known
    pictures    what a drawing needs to know of a pipeline, taken before and after the passes
    decisions   which launches were fused and which were not, read from the passes' remarks
    markup      elements of HTML and SVG, with all text escaped
    lanes       the layout of a drawing: boxes in a column, wires in lanes beside it
    drawing     a pipeline as an SVG
    page        the page around the drawings
    reports     a module, its passes and what they said: as text, as a page, and in a notebook
    graph       a pipeline in DOT

Nothing here changes a module; page.css is the style of the page.
"""
