"""Whether and how launches are joined: the pressure of a chain, and plans of groups.

    pressure        fusion_pressure, should_fuse_chain: a chain of hand-offs as a tensor train
    power_compare   the exact comparison under should_fuse_chain
    launch_groups   stages, groups, plans and their errors
    launch_plan     plan_launch_fusion, and its greedy strategy
    windows         which stages of a line may share a group
    group_starts    the best way to cut a line of stages, whatever a stage is
    launch_optimal  its use for plain stages
    pipeline_plan   its use for stages with named buffers, as passes have them

docs/fusion.md has the formulae.  Nothing here knows a Program of the user's: passes turn theirs
into these stages.
"""
