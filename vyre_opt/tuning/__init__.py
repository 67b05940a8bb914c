"""The differentiable autotuner: which schedule a kernel is run at.

policy, fixed     the policy over configurations, in floats and in 16.16 through the compiled kernels
space, spaces     what there is to choose from; the schedule spaces of the shipped kernels, as data
workload          a kernel on buffers of known sizes: its program, inputs and check (search_workload:
                  decode and search, with the fusion threshold); samples: what it is measured on
measure           honest measuring, on any dispatcher; measure_cuda: by events on a GPU
descent           the search: the policy descends its expected cost; surrogate: what costs tell of others
search            random search and successive halving; ledger: the budget of all three
duel              the last word: whether the cheapest are worth leaving the default for
tuner, tuning     `autotune` and its result; keeping: results in the cache; plot: a picture of one
recording         recorded costs, in recordings/
texts             schedules written into the kernels of a text
"""
