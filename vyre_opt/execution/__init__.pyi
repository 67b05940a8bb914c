"""The public names of execution.  Made by `python docs/op_stubs.py`."""

from .dispatcher import BackendError as BackendError
from .dispatcher import BadInputs as BadInputs
from .dispatcher import BadLaunch as BadLaunch
from .dispatcher import BadSpecs as BadSpecs
from .dispatcher import DispatchError as DispatchError
from ..driver.executable import Executable as Executable
from .limits import LimitError as LimitError
from ..driver.limited import LimitedExecutable as LimitedExecutable
from .limits import Limits as Limits
from .dispatcher import OutputAlloc as OutputAlloc
from ..driver.pipeline import PipelineExecutable as PipelineExecutable
from .dispatcher import ProgramError as ProgramError
from ..driver.program import ProgramExecutable as ProgramExecutable
from .dispatcher import Scratch as Scratch
from ..driver.compile import compile as compile
from ..debugger.kernels import debug as debug
from .debug_prints import on_debug_print as on_debug_print
from ..driver.profile import profile as profile
from ..driver.compile import run as run
from ..targets.cuda.device import synchronize as synchronize
