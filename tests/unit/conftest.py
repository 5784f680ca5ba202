"""What all of these tests begin with."""

import tests.support.patience  # noqa: F401 - it sets the default of Hypothesis
