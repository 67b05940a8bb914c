"""Writes packs: kernels, pipelines and texts compiled for machines that have no compiler (see `vyre_opt.packs`)."""

from .packer import pack

__all__ = ["pack"]
