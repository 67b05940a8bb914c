"""Certificates of what passes did, for `vyre_opt.checker`: written while passes run."""

from __future__ import annotations

from .writer import CertificateWriter, facts

__all__ = ["CertificateWriter", "facts"]
