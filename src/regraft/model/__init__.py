"""The main job in one call: a model in, the same kind of model out, rewritten, checked, and with a report.

`optimize` is what people call; `models` knows the formats, `files` writes whole or not at all, `verification` compares
a model with what became of it. Stands on every other room but the command line, which is built on this one.
"""

from .attempts import PrecisionReport
from .comparison import OutputDifference
from .describing import Description, describe_model
from .differentiating import differentiated
from .errors import OutputError, UsageError, VerificationError
from .explaining import Explained, explain_model
from .files import check_output, sizes_of, staged, write_text
from .inputs import read_inputs
from .measure import Measurement
from .models import Model, form_of, in_versions, open_model, output_names, write_model
from .optimizing import optimize, optimize_module
from .report import OptimizationReport
from .timing import Gain, Prepared, Turns, gain, prepared, time_in_turns
from .verification import Verification, verify

__all__ = [
    "Description",
    "Explained",
    "Gain",
    "Measurement",
    "Model",
    "OptimizationReport",
    "OutputDifference",
    "OutputError",
    "PrecisionReport",
    "Prepared",
    "Turns",
    "UsageError",
    "Verification",
    "VerificationError",
    "check_output",
    "describe_model",
    "differentiated",
    "explain_model",
    "form_of",
    "gain",
    "in_versions",
    "open_model",
    "optimize",
    "optimize_module",
    "output_names",
    "prepared",
    "read_inputs",
    "sizes_of",
    "staged",
    "time_in_turns",
    "verify",
    "write_model",
    "write_text",
]
