"""Public calls whose results are kept, so that a later version can be held to them.

    PYTHONPATH=test python -m support.call_records record FILE --calls 3000 --seed 1
    PYTHONPATH=test python -m support.call_records replay FILE

    values      descriptions of arguments as JSON, and the arrays and numbers that they describe; results as text
    kernels     kernels and pipelines in Python      } that calls are made of
    texts       programs and pipelines of text       }
    calls       calls that are drawn: first a right one, then some with a mistake
    entries     what a call calls, by its name, with the dispatchers and the GPU of one process
    turns       a call made three times in a process of its own, as text
    record      the file, what is compared, and what differs

A call is made in a forked process, so nothing that an earlier call planned or compiled is there, and the order of
calls changes nothing.  The first two turns have the same numbers in their arrays, the third has others, as a plan
that keeps what belongs to one call would show.
"""
