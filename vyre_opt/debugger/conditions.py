"""Conditions on the invocations that run an op."""

from __future__ import annotations

import numpy as np

from .view import Expression, ExpressionError, View

__all__ = ["Condition"]


class Condition:
    """`is_computed`: whether it has ever had a value; `problem`: why it last had none."""

    def __init__(self, text: str) -> None:
        """Raises ExpressionError for what is no expression."""
        self.text, self.expression = text, Expression(text)
        self.is_computed, self.problem = False, ""

    def lanes(self, view: View, lanes: np.ndarray) -> np.ndarray:
        """Lanes of the frame, among some, for which the condition holds.

        It is computed for all of them at once, or one by one where it is written for numbers, as with `x if c else y`.
        """
        assert view.frame is not None
        try:
            holds = np.asarray(self.expression.value(view, of_all=True))
        except ExpressionError as error:
            if not error.is_of_arrays:
                self.problem = str(error)
                return lanes[:0]
        else:
            if holds.shape in ((), (1,)):
                holds = np.broadcast_to(holds.reshape(-1), view.frame.size)
            if holds.shape == (view.frame.size,):
                self.is_computed = True
                chosen: np.ndarray = lanes[holds[lanes].astype(np.bool_)]
                return chosen
        invocations = view.frame.invocations
        return np.array([lane for lane in lanes if self._holds(view.by(int(invocations[lane])))], np.int64)

    def _holds(self, view: View) -> bool:
        try:
            value = self.expression.value(view)
            holds = bool(np.all(value))
        except ExpressionError as error:
            self.problem = str(error)
            return False
        self.is_computed = True
        return holds
