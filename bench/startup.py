"""How long a command takes to answer, and what it imports.

python bench/startup.py [--rounds 15]
"""

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import satchel": [sys.executable, "-c", "import satchel"],
    "satchel --help": [sys.executable, "-m", "satchel", "--help"],
    "satchel train --help": [sys.executable, "-m", "satchel", "train", "--help"],
    "satchel data": [sys.executable, "-m", "satchel", "data"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times[name].append(time.perf_counter() - began)
    print(f"{rounds} rounds in turn, median seconds")
    for name, seconds in times.items():
        print(f"  {name:<22} {statistics.median(seconds):.2f}")


if __name__ == "__main__":
    main()
