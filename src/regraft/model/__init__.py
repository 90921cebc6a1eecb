"""The main job in one call: read a model, rewrite it, check the result, and write it in the same format with a report.

`optimize` is the public function; `models` knows the formats, `files` writes a file completely or not at all, and
`verification` compares a model with its rewritten form. The package may import every other one except `view` and `cli`,
which build on it.
"""

from .attempts import PrecisionReport as PrecisionReport
from .chosen_passes import optimize_module as optimize_module
from .comparison import OutputDifference as OutputDifference
from .describing import Description as Description
from .describing import describe_model as describe_model
from .differentiating import differentiated as differentiated
from .errors import OutputError as OutputError
from .errors import UsageError as UsageError
from .errors import VerificationError as VerificationError
from .explaining import Explained as Explained
from .explaining import explain_model as explain_model
from .files import check_output as check_output
from .files import sizes_of as sizes_of
from .files import staged as staged
from .files import write_text as write_text
from .inputs import read_inputs as read_inputs
from .measure import Measurement as Measurement
from .models import Model as Model
from .models import form_of as form_of
from .models import in_versions as in_versions
from .models import open_model as open_model
from .models import output_names as output_names
from .models import write_model as write_model
from .optimizing import optimize as optimize
from .report import OptimizationReport as OptimizationReport
from .timing import Gain as Gain
from .timing import Prepared as Prepared
from .timing import Turns as Turns
from .timing import gain as gain
from .timing import prepared as prepared
from .timing import time_in_turns as time_in_turns
from .verification import Verification as Verification
from .verification import verify as verify

__all__: list[str] = sorted([name for name, value in globals().items() if callable(value)])  # pyright: ignore[reportUnsupportedDunderAll]
