"""The notebooks run from top to bottom, and are kept without what they print."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted(Path(__file__, "../../notebooks").resolve().glob("*.ipynb"))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code), "kept without what it prints"
    NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [output for cell in code for output in cell.outputs]
    assert printed and not any(output.output_type == "error" for output in printed)
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
