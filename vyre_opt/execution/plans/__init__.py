"""Plans: what a call of a program or a pipeline comes to.

steps           launches, host reads and repeats, in order (`vyre_opt.driver.pipeline_plan` makes them)
call_plan       a plan and the arrays of a call
rounds          where a step of a plan was when it failed
host_plan       runs a plan launch by launch, for the interpreter
dispatched      runs a plan on a dispatcher of the caller's
zeroed          buffers that would show what their memory held before
storage_layout  buffers in one block of memory
watch           observers of host reads and of the time of launches
"""
