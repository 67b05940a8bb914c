"""An embedding whose table is a tensor train, to be trained like torch.nn.Embedding."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from ..execution.dispatcher import BadInputs
from ..kernels.named.kernel import Tensor
from .ops import OPERATORS

__all__ = ["TTEmbedding"]


class TTEmbedding(torch.nn.Module):
    """Rows of a table of prod(p) rows and prod(q) columns, which is stored as 2 to 4 cores.

    `cores`: the parameters; core k has shape [p_k, r_k, q_k, r_k+1], with r_0 = r_d = 1, and `ranks` has the
    others.  f32 or bf16.  They are initialised so that the elements of the table have variance 1, as those
    of torch.nn.Embedding.  An index is written in the mixed radix `p`, the most significant digit first.
    """

    def __init__(
        self, p: Sequence[int], q: Sequence[int], ranks: Sequence[int], device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        if not 2 <= len(p) <= 4 or len(q) != len(p) or len(ranks) != len(p) - 1:
            raise BadInputs(f"2 to 4 of p, as many of q, and one rank less: {p}, {q}, {ranks}")
        inner = [1, *ranks, 1]
        shapes = zip(p, inner, q, inner[1:], strict=False)
        self.cores = torch.nn.ParameterList(
            torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) for shape in shapes
        )
        self.reset_parameters()

    @property
    def num_embeddings(self) -> int:
        return prod(core.shape[0] for core in self.cores)

    @property
    def embedding_dim(self) -> int:
        return prod(core.shape[2] for core in self.cores)

    def reset_parameters(self) -> None:
        """Draw the cores again.  An element of the table is a sum of prod(ranks) products of a value of each core."""
        deviation = prod(core.shape[3] for core in self.cores) ** (-0.5 / len(self.cores))
        for core in self.cores:
            torch.nn.init.normal_(core, std=deviation)

    def forward(self, indices: Tensor) -> Tensor:
        """Rows, of shape (*indices, embedding_dim).  Raises BadInputs for an index that is no row."""
        return OPERATORS["tt_embedding"](*self.cores, indices)

    def table(self) -> Tensor:
        """The whole table, (num_embeddings, embedding_dim)."""
        return self(torch.arange(self.num_embeddings, device=self.cores[0].device))

    def extra_repr(self) -> str:
        ranks = [core.shape[3] for core in self.cores][:-1]
        return f"{self.num_embeddings}, {self.embedding_dim}, ranks={ranks}"
