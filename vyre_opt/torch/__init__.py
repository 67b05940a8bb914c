"""The kernels as operators of torch, which autograd and torch.compile know: torch.ops.vyre.softmax and others.

    import vyre_opt.torch  # registers them

ops         the operators, made of what the named kernels declare
batching    torch.vmap: results of a batch by one call, or by one for each item
embedding   `TTEmbedding`, a module whose table is a tensor train
programs    `register`: a compiled program as such an operator

Importing this package imports torch, which nothing else in vyre_opt does.
"""

from . import ops
from .embedding import TTEmbedding
from .programs import register

__all__ = ["TTEmbedding", "ops", "register"]
