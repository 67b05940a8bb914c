"""What this package adds to vyre-opt; pyproject.toml says which module has what."""
