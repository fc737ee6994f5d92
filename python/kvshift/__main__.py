"""The command ``kvshift`` that comes with the package: ``python -m kvshift`` and ``kvshift``."""
import os
import pathlib
import sys


def main() -> None:
    """Runs the command in place of this process."""
    command = pathlib.Path(__file__).parent / "bin" / "kvshift"
    if not command.is_file():
        sys.exit(f"kvshift: no command at '{command}': install the package with pip")
    os.execv(command, ["kvshift", *sys.argv[1:]])


if __name__ == "__main__":
    main()
