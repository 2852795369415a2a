"""Every verb x resource x kind of principal, expected against got: `make acl-matrix`.

What is wrong is printed, a line a cell. The last line is one line for scripts.
"""

import sys

from tests.acl_matrix.matrix import cells


def main() -> int:
    """Ask everything and say how much of it is other than the table."""
    asked = list(cells())
    wrong = [cell for cell in asked if cell.is_wrong]
    for cell in wrong:
        print(f"{cell.principal} {cell.verb} {cell.resource}: expected {cell.expected}, got {cell.got}")
    print(f"acl-matrix: {'FAILED' if wrong else 'OK'} cells={len(asked)} wrong={len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
