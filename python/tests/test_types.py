"""The package's types hold for its own code and for what uses it."""

import subprocess
import sys


def test_mypy_finds_nothing(tmp_path):
    strict = ["--strict", "--ignore-missing-imports", "--python-version", "3.10", "--package", "iosched"]
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), *strict]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
