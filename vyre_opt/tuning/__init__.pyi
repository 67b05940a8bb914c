"""The public names of tuning.  Made by `python docs/op_stubs.py`."""

from .space import Space as Space
from .result import Tuning as Tuning
from .tuner import autotune as autotune
from .policy import config_gradient as config_gradient
from .fixed import config_gradient_magnitude_pre_exp_fixed as config_gradient_magnitude_pre_exp_fixed
from .policy import expected_cost as expected_cost
from .policy import expected_cost_gradient as expected_cost_gradient
from .result_cache import export_tuning as export_tuning
from .result_cache import import_tuning as import_tuning
from .workload import kernel_workload as kernel_workload
from .fixed import natural_config_gradient_pre_exp_fixed as natural_config_gradient_pre_exp_fixed
from .policy import pick_best_config as pick_best_config
from .policy import pick_config as pick_config
from .fixed import pick_config_pre_exp_fixed as pick_config_pre_exp_fixed
