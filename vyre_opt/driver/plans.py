"""Plans that are kept for later calls, the latest of them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

__all__ = ["MAX_PLANS", "remember"]

MAX_PLANS = 1024
"""Most plans of a function; a plan takes some hundred bytes, and its code is cached by the dispatcher."""


def remember(plans: OrderedDict[Any, Any], key: Any, plan: Any) -> None:
    """Add a plan; the oldest goes where there are too many."""
    plans[key] = plan
    if len(plans) > MAX_PLANS:
        plans.popitem(last=False)
