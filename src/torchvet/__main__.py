"""`python -m torchvet`."""

import sys

from torchvet.cli import main

sys.exit(main())
