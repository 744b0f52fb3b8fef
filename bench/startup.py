"""Start-up time of the command line and of imports.

    python bench/startup.py [--rounds 15] [--quick]

Each command runs in a new process; the commands alternate. Median seconds over the rounds.
"""

import statistics
import subprocess
import sys
from functools import partial

from measure import parser, time_alternately

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import satchel": [sys.executable, "-c", "import satchel"],
    "satchel --help": [sys.executable, "-m", "satchel", "--help"],
    "satchel train --help": [sys.executable, "-m", "satchel", "train", "--help"],
    "satchel data": [sys.executable, "-m", "satchel", "data"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    options = parser(__doc__, "--quick", rounds=15).parse_args()
    rounds = 1 if options.quick else options.rounds
    variants = {
        name: partial(subprocess.run, command, check=True, capture_output=True) for name, command in COMMANDS.items()
    }
    print(f"{rounds} rounds, median seconds")
    for name, seconds in time_alternately(variants, rounds, warmup=0).items():
        print(f"  {name:<22} {statistics.median(seconds):.2f}")


if __name__ == "__main__":
    main()
