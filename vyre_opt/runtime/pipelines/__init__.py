"""Running pipelines.

    steps          plans: what is to run, in order (`vyre_opt.driver.pipeline_plan` makes them)
    host_runner    runs a plan on NumPy arrays, for ref and cpu
    watch          observers of host reads and of the time of launches

`vyre_opt.cuda.pipeline` runs a plan on a GPU.
"""
