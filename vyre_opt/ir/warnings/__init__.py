"""Warnings of programs and launches that may run, and would not do what they look like.

program_warnings     programs as they are written, of which each warning below has a file
launch_warnings      the same at the numbers of a launch: its grid, lengths and scalars
invocation_runs      what invocations access, found by running their indices and conditions: what most others here ask
unordered_accesses   races: two invocations touch an element in no order, of which touched_elements has a record each;
                     racing_stores by the text alone, unordered_atomics plain accesses beside atomics,
                     data_conditions what is assumed where elements decide, race_remedies what to write
unstored_elements    elements of workgroup memory that are read, and that nobody stores
partly_written       elements of a pipeline's own buffers that a stage reads, and that none before it has written,
                     affine_stores which invocation of a large launch stores an element
unreached_elements   elements that a grid leaves out, vector_tails those behind the last whole vector,
                     dropped_remainders those behind the last whole round of a sum
ignored_axes, exchanged_indices, short_workgroups   grids and indices along other axes than those of the arrays
subgroup_values      values of a subgroup that are taken for a workgroup's
scanned_places       places of an inclusive scan, which leave the first one free
spin_locks           invocations that wait for one another
unused_buffers       arrays and numbers of the caller that no op uses
overwritten_rounds   stores of a loop of which only the last round stays
unchanged_rounds     loops all of whose rounds add the same
unread_rounds        tiles that the last round of a loop fills, and that nobody reads
part_of_a_tile       workgroup memory that is stored to, or read, in part
reduction_identities maxima and minima that begin with a 0 that counts, signs which values may be below 0
padded_reductions    zeros beyond an edge that count in a reduction
narrow_numbers       numbers of 8 and 16 bits that wrap before they are made wider
wrapped_numbers      numbers that wrap before they are made wider
"""
