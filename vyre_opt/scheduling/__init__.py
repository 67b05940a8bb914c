"""Best forms of programs for the machine that runs them: the same results, with more bytes in flight.

access_vectors   accesses of neighbouring elements as one of a vector
batched_loads    loops that load for several iterations at once
invariant_loads  loads that all iterations of a loop repeat
loop_facts       which loops there are, and how many iterations they have
kept_loads       loops over the same elements that load them once
combined_atomics atomics of one invocation on one element
carried_atomics  atomics of all iterations of a loop on one element
coarsening       invocations that do the work of several neighbours
privatization    workgroups that count in memory of their own
launch_forms     which of these forms a launch gets, by its lengths and by what runs it
launch_work      bytes and arithmetic of a launch, and how a lane moves its bytes
machines         what GPUs move and compute at most, and what a launch waits for there
relaunch         launches of a text that get another program
"""
