"""Manage and right-size a Hugging Face Space from the command line.

python scripts/manage_space.py --help
python scripts/manage_space.py hardware USER/SPACE --tier l4x1 --sleep-time 3600
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, without PYTHONPATH

from lib.cli.app import main

if __name__ == "__main__":
    main(prog_name="python scripts/manage_space.py")
