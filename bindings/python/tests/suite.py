"""The long suite of ./dev test-python: PyTorch's models and operators on Treadle, held against PyTorch.

    suite.py PART [OPTION...]      PART: families, models, ops, files, types, empty, language, inductor; suite.py PART --help lists its options"""

import argparse
import sys

import suite_empty
import suite_families
import suite_files
import suite_inductor
import suite_language
import suite_models
import suite_operators
import suite_profiles
import suite_tutorials
import suite_types

PARTS = {"empty": suite_empty, "families": suite_families, "files": suite_files, "models": suite_models, "ops": suite_operators, "language": suite_language, "inductor": suite_inductor,
         "profiles": suite_profiles, "tutorials": suite_tutorials, "types": suite_types}


def main():
    parser = argparse.ArgumentParser()
    parts = parser.add_subparsers(dest="part", required=True)
    for name, part in PARTS.items():
        part.add_options(parts.add_parser(name, help=part.__doc__.partition("\n")[0]))
    options = parser.parse_args()
    return PARTS[options.part].run(options)


if __name__ == "__main__":
    sys.exit(main())
