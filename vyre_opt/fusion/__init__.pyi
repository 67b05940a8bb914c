"""The public names of fusion.  Made by `python docs/op_stubs.py`."""

from .launch_groups import ByteCountOverflow as ByteCountOverflow
from .launch_groups import DuplicateStage as DuplicateStage
from .launch_groups import LaunchFusionError as LaunchFusionError
from .launch_groups import LaunchFusionGroup as LaunchFusionGroup
from .launch_groups import LaunchFusionPlan as LaunchFusionPlan
from .launch_groups import LaunchFusionStage as LaunchFusionStage
from .launch_groups import StageOverBudget as StageOverBudget
from .launch_groups import ZeroBudget as ZeroBudget
from .pressure import fusion_pressure as fusion_pressure
from .launch_plan import plan_launch_fusion as plan_launch_fusion
from .pressure import pressure_of as pressure_of
from .pressure import should_fuse_chain as should_fuse_chain
