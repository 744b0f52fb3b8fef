"""`python -m satchel` is `satchel`."""

from satchel.cli.main import main

if __name__ == "__main__":
    main()
