"""Reports on what the passes did to a module's pipelines: an HTML page and a DOT graph.

    traffic     memory traffic in bytes, as far as sizes are known
    pictures    what a drawing needs to know of a pipeline, taken before and after the passes
    snapshot    a module as it was before the passes
    decisions   which launches were fused and which were not, and which buffers stay in memory, from the passes' remarks
    lanes       the layout of a drawing: boxes in a column, wires in lanes beside it
    drawing     the geometry of a pipeline's drawing (wrapping: its names in lines)
    listings    the IR before and after, line by line
    measure     how long pipelines take on this CPU, before and after
    environment the templates, by Jinja2, which escape all text
    launches    what the launches of pipelines ask of a machine
    page        what the templates show: drawings, listings, tables
    reports     a module, its passes and what they said: as text, as a page, and in a notebook
    graph       a pipeline in DOT

Nothing here changes a module.  `templates` has the markup and the style of the page.
"""
