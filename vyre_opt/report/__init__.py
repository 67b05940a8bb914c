"""What became of a module's pipelines, for people: a page to open, and a graph.

    traffic     bytes through memory, as far as sizes are known
    pictures    a pipeline in the few words that a drawing needs, before and after the passes
    decisions   what passes joined and what they left apart, read off their remarks
    markup      elements of HTML and SVG, with all text escaped
    lanes       where the wires of a drawing run
    drawing     a pipeline as an SVG
    page        the page around the drawings
    graph       a pipeline in DOT
    page.css    its style, in light and dark

Nothing here changes a module.
"""
