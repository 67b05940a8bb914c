"""`Array`: any array of NumPy, as types name it."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Array"]

Array = np.ndarray[Any, Any]
