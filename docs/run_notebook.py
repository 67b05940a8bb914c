"""Runs the notebook in docs and keeps what its cells print: `make notebook`."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

PATH = Path(__file__).with_name("kernels_in_python.ipynb")

notebook = nbformat.read(PATH, as_version=4)
NotebookClient(notebook, timeout=120, record_timing=False).execute()
nbformat.write(notebook, PATH)
