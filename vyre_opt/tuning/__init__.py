"""The autotuner: measures schedules of a kernel, and finds the best by few measurements.

tuner             `autotune`, which ties the others together; result: what it returns, result_cache: results in
                  the compile cache, plot: a result as a picture
tune_pass         the pass `tune`; module_tuning: schedules written into the kernels of a module

space             configurations; those of a shipped kernel are in its declaration (kernels/named)
workload          a kernel on buffers of known sizes: its program, inputs and check
measure           compiles, checks and times configurations, by a runner; measure_cuda: by events on a GPU
budget            what a search has measured, and what it may still measure

policy, fixed     policies over configurations in a list, in floats, and in 16.16 by the compiled kernels
surrogate_search  the frame of two searches; surrogate: predicts costs of what is not measured
bayesian_search   measures what promises most gain
gradient_search   measures what is drawn from a policy that descends the predicted cost (factor_policy)
baseline_searches random search and successive halving, to compare with
paired_test       whether the cheapest are faster than the default beyond the noise
"""

from ..faces import face

__getattr__, __dir__ = face("tuning")
