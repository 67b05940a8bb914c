"""Whether and how launches are joined.

What pays, by numbers alone:

    pressure          fusion_pressure, should_fuse_chain: a chain of hand-offs as a tensor train
    power_compare     the exact comparison in should_fuse_chain
    launch_groups     stages, groups, plans and their errors
    launch_plan       plan_launch_fusion, its greedy and its optimal strategy
    liveness_plan     the optimal plan for stages with named buffers, as passes have them
    group_budget      which neighbouring stages fit the byte budget together
    partition         the optimal cuts of a line of stages, whatever a stage is

What may be joined, by proof, and joining it:

    pair_legality     whether one launch may follow another in one program, and needs a barrier
    group_legality    whether a stretch of launches may be one program
    veto              the note that forbids joining
    halo_plan         whether workgroups may compute their neighbours' elements again, and at what cost
    halo_recompute    the rewriting for that
    join              several programs as one
    remarks           what launch_fusion says of all this
    workgroup_tile    a buffer of storage as a workgroup tile
    regrid            a launch over another grid than its own; group_count, workgroup_ids: what that takes
    workgroup_memory  the bytes of workgroup memory that a target has

docs/explanation/fusion.md has the formulae and the proofs.
"""

from ..faces import face

__getattr__, __dir__ = face("fusion")
